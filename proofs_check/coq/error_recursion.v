(* The statement error-recursion: e' = (|W| + |R|) e + |R| H + |c| bounds |f - g| map after map, for
   networks of any depth and any widths.

   f's map is (W + R) y + b + c where g's is W x + b; H bounds |x| on g. A vector is a function of
   its index, a layer knows how many inputs it adds up. *)

From Coq Require Import Reals Lra Lia List.
Import ListNotations.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S n' => sum n' f + f n'
  end.

Definition relu (x : R) : R := Rmax x 0.

Record layer := { inputs : nat; W : nat -> nat -> R; Res : nat -> nat -> R;
                  b : nat -> R; c : nat -> R; H : nat -> R }.

Definition g_map (l : layer) (x : nat -> R) (i : nat) : R :=
  relu (sum (inputs l) (fun j => W l i j * x j) + b l i).

Definition f_map (l : layer) (y : nat -> R) (i : nat) : R :=
  relu (sum (inputs l) (fun j => (W l i j + Res l i j) * y j) + b l i + c l i).

Definition step (l : layer) (e : nat -> R) (i : nat) : R :=
  sum (inputs l) (fun j => (Rabs (W l i j) + Rabs (Res l i j)) * e j)
  + sum (inputs l) (fun j => Rabs (Res l i j) * H l j) + Rabs (c l i).

Lemma relu_lipschitz : forall x y, Rabs (relu x - relu y) <= Rabs (x - y).
Proof.
  intros x y. unfold relu, Rmax.
  destruct (Rle_dec x 0), (Rle_dec y 0); unfold Rabs;
    repeat (destruct (Rcase_abs _)); lra.
Qed.

(* one summand: |(w + r) y - w x| <= (|w| + |r|) e + |r| h *)
Lemma one_term : forall w r x y e h, Rabs (y - x) <= e -> Rabs x <= h ->
  Rabs ((w + r) * y - w * x) <= (Rabs w + Rabs r) * e + Rabs r * h.
Proof.
  intros w r x y e h He Hh.
  replace ((w + r) * y - w * x) with ((w + r) * (y - x) + r * x) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
  apply Rplus_le_compat.
  - apply Rmult_le_compat; try apply Rabs_pos; [apply Rabs_triang | exact He].
  - apply Rmult_le_compat_l; [apply Rabs_pos | exact Hh].
Qed.

Lemma sums_apart : forall n w r x y e h,
  (forall j, (j < n)%nat -> Rabs (y j - x j) <= e j /\ Rabs (x j) <= h j) ->
  Rabs (sum n (fun j => (w j + r j) * y j) - sum n (fun j => w j * x j))
  <= sum n (fun j => (Rabs (w j) + Rabs (r j)) * e j) + sum n (fun j => Rabs (r j) * h j).
Proof.
  induction n as [|n IH]; intros w r x y e h Hyp; simpl.
  - rewrite Rminus_0_r, Rabs_R0. lra.
  - destruct (Hyp n) as [He Hh]; [lia|].
    assert (T := one_term (w n) (r n) (x n) (y n) (e n) (h n) He Hh).
    assert (I := IH w r x y e h (fun j L => Hyp j (Nat.lt_lt_succ_r _ _ L))).
    match goal with |- Rabs (?a + ?a1 - (?d + ?d1)) <= _ =>
      replace (a + a1 - (d + d1)) with ((a - d) + (a1 - d1)) by ring end.
    eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Fixpoint g (ls : list layer) (x : nat -> R) : nat -> R :=
  match ls with [] => x | l :: rest => g rest (g_map l x) end.

Fixpoint f (ls : list layer) (y : nat -> R) : nat -> R :=
  match ls with [] => y | l :: rest => f rest (f_map l y) end.

Fixpoint error (ls : list layer) (e : nat -> R) : nat -> R :=
  match ls with [] => e | l :: rest => error rest (step l e) end.

(* H bounds the values that g takes ahead of each map *)
Fixpoint bounded (ls : list layer) (x : nat -> R) : Prop :=
  match ls with
  | [] => True
  | l :: rest => (forall j, (j < inputs l)%nat -> Rabs (x j) <= H l j) /\ bounded rest (g_map l x)
  end.

Theorem one_map : forall l x y e,
  (forall j, Rabs (y j - x j) <= e j) ->
  (forall j, (j < inputs l)%nat -> Rabs (x j) <= H l j) ->
  forall i, Rabs (f_map l y i - g_map l x i) <= step l e i.
Proof.
  intros l x y e He Hh i. unfold f_map, g_map, step.
  eapply Rle_trans; [apply relu_lipschitz|].
  assert (S := sums_apart (inputs l) (W l i) (Res l i) x y e (H l)
                 (fun j L => conj (He j) (Hh j L))).
  match goal with |- Rabs (?p + ?q + ?r - (?s + ?q)) <= _ =>
    replace (p + q + r - (s + q)) with ((p - s) + r) by ring end.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Theorem error_recursion : forall ls x y e,
  (forall j, Rabs (y j - x j) <= e j) -> bounded ls x ->
  forall i, Rabs (f ls y i - g ls x i) <= error ls e i.
Proof.
  induction ls as [|l rest IH]; intros x y e He Hb i; simpl; [apply He|].
  destruct Hb as [Hh Hrest]. apply IH; [|exact Hrest].
  apply one_map; assumption.
Qed.
