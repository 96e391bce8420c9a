(* The statement vec-identity: vec(M2 diag(s) M1) = (M2 (.) M1^T) s, row by row, for every m, k, n.

   A matrix is a function of its indices; a sum of n terms is [sum n f]. Row a*k + b of the
   Khatri-Rao product K is read back by division, as in the statement row-major-index. *)

From Coq Require Import Reals Lra Arith Lia.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S n' => sum n' f + f n'
  end.

Lemma sum_ext : forall n f g, (forall j, (j < n)%nat -> f j = g j) -> sum n f = sum n g.
Proof.
  induction n as [|n IH]; intros f g H; simpl; [reflexivity|].
  rewrite (IH f g) by (intros; apply H; lia).
  rewrite (H n) by lia. reflexivity.
Qed.

(* entry (a, b) of M2 diag(s) M1, for n hidden units *)
Definition composed (n : nat) (M2 M1 : nat -> nat -> R) (s : nat -> R) (a b : nat) : R :=
  sum n (fun j => M2 a j * s j * M1 j b).

(* vec, row by row: entry r of vec W, W with k columns *)
Definition vec (k : nat) (W : nat -> nat -> R) (r : nat) : R := W (r / k)%nat (r mod k)%nat.

(* entry (r, j) of M2 (.) M1^T *)
Definition khatri_rao (k : nat) (M2 M1 : nat -> nat -> R) (r j : nat) : R :=
  M2 (r / k)%nat j * M1 j (r mod k)%nat.

(* the statement row-major-index: (a, b) -> a*k + b is read back *)
Theorem row_major_index : forall k a b, (b < k)%nat ->
  ((a * k + b) / k)%nat = a /\ ((a * k + b) mod k)%nat = b.
Proof.
  intros k a b H. split.
  - rewrite Nat.div_add_l by lia. rewrite Nat.div_small by lia. lia.
  - rewrite Nat.add_comm, Nat.mod_add by lia. apply Nat.mod_small; lia.
Qed.

(* it is onto the rows below m*k *)
Theorem row_major_onto : forall m k r, (r < m * k)%nat ->
  (r / k < m)%nat /\ (r mod k < k)%nat /\ (r = (r / k) * k + r mod k)%nat.
Proof.
  intros m k r H. assert (k <> 0)%nat by (intro E; subst; lia).
  repeat split.
  - apply Nat.div_lt_upper_bound; lia.
  - apply Nat.mod_upper_bound; lia.
  - rewrite Nat.mul_comm. apply Nat.div_mod; lia.
Qed.

Theorem vec_identity : forall n k M2 M1 s r,
  vec k (composed n M2 M1 s) r = sum n (fun j => khatri_rao k M2 M1 r j * s j).
Proof.
  intros. unfold vec, composed, khatri_rao. apply sum_ext. intros. ring.
Qed.

(* in the form in which it is used: row a*k + b of K s is entry (a, b) of the product *)
Theorem vec_identity_by_entries : forall n k M2 M1 s a b, (b < k)%nat ->
  sum n (fun j => khatri_rao k M2 M1 (a * k + b) j * s j) = composed n M2 M1 s a b.
Proof.
  intros n k M2 M1 s a b H. destruct (row_major_index k a b H) as [Ha Hb].
  rewrite <- vec_identity. unfold vec. rewrite Ha, Hb. reflexivity.
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

(* the statement adjoint: <M2 diag(s) M1, Y> = <s, diag(M2^T Y M1^T)> *)
Theorem adjoint : forall m k n M2 M1 s Y,
  sum m (fun a => sum k (fun b => composed n M2 M1 s a b * Y a b)) =
  sum n (fun j => s j * sum m (fun a => sum k (fun b => M2 a j * Y a b * M1 j b))).
Proof.
  intros. unfold composed.
  transitivity (sum m (fun a => sum n (fun j => s j * sum k (fun b => M2 a j * Y a b * M1 j b)))).
  - apply sum_ext; intros a _.
    rewrite (sum_ext n _ (fun j => sum k (fun b => s j * (M2 a j * Y a b * M1 j b))))
      by (intros; rewrite sum_scale; reflexivity).
    rewrite <- sum_swap. apply sum_ext; intros b _.
    rewrite Rmult_comm, <- sum_scale. apply sum_ext; intros. ring.
  - rewrite sum_swap. apply sum_ext; intros j _. rewrite sum_scale. reflexivity.
Qed.
