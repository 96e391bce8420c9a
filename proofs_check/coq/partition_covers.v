(* The statement partition-covers: the boxes at the end of any tree of cuts cover the box that was
   cut; so what holds on each of them holds on the whole, in any number of dimensions. *)

From Coq Require Import Reals Lra List Arith.
Import ListNotations.
Open Scope R_scope.

Definition point := nat -> R.
Record box := { lo : point; hi : point }.
Definition inside (x : point) (B : box) : Prop := forall i, lo B i <= x i <= hi B i.

Definition replaced (v : point) (i : nat) (value : R) : point :=
  fun j => if Nat.eqb j i then value else v j.

(* cut at [place] in coordinate i: what lies below, and what lies above; both keep the face *)
Definition below (B : box) (i : nat) (place : R) := {| lo := lo B; hi := replaced (hi B) i place |}.
Definition above (B : box) (i : nat) (place : R) := {| lo := replaced (lo B) i place; hi := hi B |}.

Inductive tree := Leaf | Cut (i : nat) (place : R) (t1 t2 : tree).

Fixpoint parts (t : tree) (B : box) : list box :=
  match t with
  | Leaf => [B]
  | Cut i place t1 t2 => parts t1 (below B i place) ++ parts t2 (above B i place)
  end.

Lemma one_cut : forall B i place x, inside x B ->
  inside x (below B i place) \/ inside x (above B i place).
Proof.
  intros B i place x H. destruct (Rle_dec (x i) place) as [L | L]; [left | right];
    intro j; assert (Hj := H j); simpl; unfold replaced;
    destruct (Nat.eqb_spec j i) as [E | E]; try rewrite E in *; lra.
Qed.

Theorem partition_covers : forall t B x, inside x B -> exists P, In P (parts t B) /\ inside x P.
Proof.
  induction t as [|i place t1 IH1 t2 IH2]; intros B x H; simpl.
  - exists B. split; [left; reflexivity | exact H].
  - destruct (one_cut B i place x H) as [Hx | Hx].
    + destruct (IH1 _ _ Hx) as [P [I X]]. exists P. split; [apply in_or_app; left |]; assumption.
    + destruct (IH2 _ _ Hx) as [P [I X]]. exists P. split; [apply in_or_app; right |]; assumption.
Qed.

(* what is shown on each part is shown on the box *)
Theorem by_parts : forall t B (Q : point -> Prop),
  (forall P x, In P (parts t B) -> inside x P -> Q x) -> forall x, inside x B -> Q x.
Proof.
  intros t B Q H x Hx. destruct (partition_covers t B x Hx) as [P [I X]]. exact (H P x I X).
Qed.
