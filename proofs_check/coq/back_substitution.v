(* The statement back-substitution (CROWN's duality): linear bounds carried back from an output to
   the input stay bounds, for networks of any depth and any widths.

   For each unit a line a z + b below the activation and a line c z + d above it, at the value z that
   the unit has. A coefficient that is not negative meets the lower line, a negative one the upper. *)

From Coq Require Import Reals Lra Lia List.
Import ListNotations.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S n' => sum n' f + f n'
  end.

Lemma sum_ext : forall n f g, (forall j, (j < n)%nat -> f j = g j) -> sum n f = sum n g.
Proof.
  induction n as [|n IH]; intros f g E; simpl; [reflexivity|].
  rewrite (IH f g) by (intros; apply E; lia). rewrite (E n) by lia. reflexivity.
Qed.

Lemma sum_le : forall n f g, (forall j, (j < n)%nat -> f j <= g j) -> sum n f <= sum n g.
Proof.
  induction n as [|n IH]; intros f g L; simpl; [lra|].
  apply Rplus_le_compat; [apply IH; intros; apply L; lia | apply L; lia].
Qed.

Lemma sum_plus : forall n f g, sum n (fun j => f j + g j) = sum n f + sum n g.
Proof. induction n; intros; simpl; [lra|]. rewrite IHn. lra. Qed.

Lemma sum_scale : forall n c f, sum n (fun j => c * f j) = c * sum n f.
Proof. induction n; intros; simpl; [lra|]. rewrite IHn. lra. Qed.

Lemma sum_zero : forall n, sum n (fun _ => 0) = 0.
Proof. induction n; simpl; [reflexivity|]. rewrite IHn. lra. Qed.

Lemma sum_swap : forall m n f,
  sum m (fun i => sum n (fun j => f i j)) = sum n (fun j => sum m (fun i => f i j)).
Proof.
  induction m as [|m IH]; intros n f; simpl.
  - symmetry. apply sum_zero.
  - rewrite IH, <- sum_plus. reflexivity.
Qed.

Record layer := { inputs : nat; units : nat; W : nat -> nat -> R; bias : nat -> R;
                  sigma : R -> R;
                  a : nat -> R; b : nat -> R; c : nat -> R; d : nat -> R }.

Definition z (l : layer) (x : nat -> R) (i : nat) : R :=
  sum (inputs l) (fun j => W l i j * x j) + bias l i.

Definition value (l : layer) (x : nat -> R) (i : nat) : R := sigma l (z l x i).

Definition slope (l : layer) (form : nat -> R) (i : nat) : R :=
  if Rle_dec 0 (form i) then a l i else c l i.

Definition height (l : layer) (form : nat -> R) (i : nat) : R :=
  if Rle_dec 0 (form i) then b l i else d l i.

(* coefficients of the layer's values to coefficients of its inputs, and the constant *)
Definition back_form (l : layer) (form : nat -> R) (j : nat) : R :=
  sum (units l) (fun i => form i * slope l form i * W l i j).

Definition back_const (l : layer) (form : nat -> R) : R :=
  sum (units l) (fun i => form i * (slope l form i * bias l i + height l form i)).

(* the lines are on their sides at the values that the units have at x *)
Definition enclosed (l : layer) (x : nat -> R) : Prop :=
  forall i, (i < units l)%nat ->
    a l i * z l x i + b l i <= sigma l (z l x i) <= c l i * z l x i + d l i.

Theorem one_layer : forall l form x, enclosed l x ->
  sum (inputs l) (fun j => back_form l form j * x j) + back_const l form
  <= sum (units l) (fun i => form i * value l x i).
Proof.
  intros l form x E. unfold back_form, back_const.
  apply Rle_trans with
    (sum (units l) (fun i => form i * (slope l form i * z l x i + height l form i))).
  - apply Req_le.
    rewrite (sum_ext (inputs l) _
      (fun j => sum (units l) (fun i => form i * slope l form i * W l i j * x j)))
      by (intros; rewrite Rmult_comm, <- sum_scale; apply sum_ext; intros; ring).
    rewrite sum_swap, <- sum_plus. apply sum_ext; intros i _. unfold z.
    rewrite (sum_ext (inputs l) _ (fun j => form i * slope l form i * (W l i j * x j)))
      by (intros; ring).
    rewrite sum_scale. ring.
  - apply sum_le; intros i L. specialize (E i L). unfold value, slope, height.
    destruct (Rle_dec 0 (form i)); nra.
Qed.

Fixpoint network (ls : list layer) (x : nat -> R) : nat -> R :=
  match ls with [] => x | l :: rest => network rest (value l x) end.

Fixpoint form_at_input (ls : list layer) (form : nat -> R) : nat -> R :=
  match ls with [] => form | l :: rest => back_form l (form_at_input rest form) end.

Fixpoint const_at_input (ls : list layer) (form : nat -> R) : R :=
  match ls with
  | [] => 0
  | l :: rest => const_at_input rest form + back_const l (form_at_input rest form)
  end.

Definition size_in (ls : list layer) (outputs : nat) : nat :=
  match ls with [] => outputs | l :: _ => inputs l end.

(* layers fit, and every unit is enclosed at the value that it takes *)
Fixpoint valid (ls : list layer) (outputs : nat) (x : nat -> R) : Prop :=
  match ls with
  | [] => True
  | l :: rest => units l = size_in rest outputs /\ enclosed l x /\ valid rest outputs (value l x)
  end.

Theorem back_substitution : forall ls outputs form x, valid ls outputs x ->
  sum (size_in ls outputs) (fun j => form_at_input ls form j * x j) + const_at_input ls form
  <= sum outputs (fun i => form i * network ls x i).
Proof.
  induction ls as [|l rest IH]; intros outputs form x V; simpl; [lra|].
  destruct V as [U [E V]].
  assert (O := one_layer l (form_at_input rest form) x E). rewrite U in O.
  assert (I := IH outputs form (value l x) V). lra.
Qed.

(* the lines of a ReLU that bends on [lo, hi] *)
Theorem relu_lines : forall lo hi alpha x, lo < 0 < hi -> lo <= x <= hi -> 0 <= alpha <= 1 ->
  alpha * x <= Rmax x 0 <= hi / (hi - lo) * x + - (hi / (hi - lo)) * lo.
Proof.
  intros lo hi alpha x B X A. split.
  - unfold Rmax. destruct (Rle_dec x 0); nra.
  - replace (hi / (hi - lo) * x + - (hi / (hi - lo)) * lo) with (hi * (x - lo) / (hi - lo))
      by (field; lra).
    apply Rmult_le_reg_r with (hi - lo); [lra|].
    replace (hi * (x - lo) / (hi - lo) * (hi - lo)) with (hi * (x - lo)) by (field; lra).
    unfold Rmax. destruct (Rle_dec x 0); nra.
Qed.

(* the least value of a linear form on a box, coordinate by coordinate *)
Theorem least_on_a_box : forall n form lo hi x,
  (forall j, (j < n)%nat -> lo j <= x j <= hi j) ->
  sum n (fun j => Rmin (form j * lo j) (form j * hi j)) <= sum n (fun j => form j * x j).
Proof.
  intros n form lo hi x B. apply sum_le; intros j L. specialize (B j L).
  destruct (Rle_dec 0 (form j)).
  - apply Rle_trans with (form j * lo j); [apply Rmin_l | nra].
  - apply Rle_trans with (form j * hi j); [apply Rmin_r | nra].
Qed.
