(* The statement accumulated-rounding: n products, added in any order, are off by at most
   gamma_n * sum |x y| + n * eta, gamma_n = n u / (1 - n u), where n u <= 1/2.

   The hypothesis is the standard model of floating-point arithmetic (IEEE 754, nearest, gradual
   underflow, no overflow): a product is x y (1 + d) + eps, a sum (x + y)(1 + d), |d| <= u and
   |eps| <= eta/2. A fused product and sum, (x y + z)(1 + d) + eps, is the sum of z and of a product
   with d = 0 and eps/(1 + d): so a leaf's eps is allowed up to eta/(2(1 - u)). *)

From Coq Require Import Reals Lra Lia.
Open Scope R_scope.

Inductive tree := Product (x y : R) | Sum (t1 t2 : tree).

Fixpoint leaves (t : tree) : nat :=
  match t with Product _ _ => 1 | Sum t1 t2 => leaves t1 + leaves t2 end.

Fixpoint exact (t : tree) : R :=
  match t with Product x y => x * y | Sum t1 t2 => exact t1 + exact t2 end.

Fixpoint size (t : tree) : R :=
  match t with Product x y => Rabs (x * y) | Sum t1 t2 => size t1 + size t2 end.

Section Rounding.

Variables u eta : R.
Hypothesis u_small : 0 <= u < 1.
Hypothesis eta_positive : 0 <= eta.

Let tiny := eta / (2 * (1 - u)).

Inductive computed : tree -> R -> Prop :=
  | product : forall x y d eps, Rabs d <= u -> Rabs eps <= tiny ->
      computed (Product x y) (x * y * (1 + d) + eps)
  | sum : forall t1 t2 v1 v2 d, computed t1 v1 -> computed t2 v2 -> Rabs d <= u ->
      computed (Sum t1 t2) ((v1 + v2) * (1 + d)).

Lemma tiny_positive : 0 <= tiny.
Proof. unfold tiny. apply Rmult_le_pos; [lra|]. apply Rlt_le, Rinv_0_lt_compat. lra. Qed.

Lemma size_positive : forall t, 0 <= size t.
Proof. induction t; simpl; [apply Rabs_pos | lra]. Qed.

Lemma exact_size : forall t, Rabs (exact t) <= size t.
Proof.
  induction t; simpl; [lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma leaves_positive : forall t, (1 <= leaves t)%nat.
Proof. induction t; simpl; lia. Qed.

Lemma power_grows : forall m n, (m <= n)%nat -> (1 + u) ^ m <= (1 + u) ^ n.
Proof. intros. apply Rle_pow; [lra | assumption]. Qed.

(* at most n factors (1 + u) for each of n products *)
Lemma factors : forall t v, computed t v ->
  Rabs (v - exact t) <= ((1 + u) ^ leaves t - 1) * size t
                        + INR (leaves t) * tiny * (1 + u) ^ (leaves t - 1).
Proof.
  induction 1 as [x y d eps Hd He | t1 t2 v1 v2 d H1 IH1 H2 IH2 Hd].
  - simpl. replace (x * y * (1 + d) + eps - x * y) with (x * y * d + eps) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult (x * y)).
    assert (Rabs (x * y) * Rabs d <= Rabs (x * y) * u)
      by (apply Rmult_le_compat_l; [apply Rabs_pos | exact Hd]).
    lra.
  - simpl exact. simpl size. simpl leaves.
    set (n1 := leaves t1) in *. set (n2 := leaves t2) in *.
    assert (L1 : (1 <= n1)%nat) by apply leaves_positive.
    assert (L2 : (1 <= n2)%nat) by apply leaves_positive.
    assert (P1 := size_positive t1). assert (P2 := size_positive t2).
    assert (T := tiny_positive).
    replace ((v1 + v2) * (1 + d) - (exact t1 + exact t2))
      with ((1 + d) * (v1 - exact t1) + (1 + d) * (v2 - exact t2) + d * (exact t1 + exact t2))
      by ring.
    assert (D : Rabs (1 + d) <= 1 + u).
    { eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_R1. lra. }
    assert (one_side : forall t n w, (1 <= n)%nat -> (S n <= n1 + n2)%nat -> 0 <= size t ->
      Rabs (exact t) <= size t ->
      Rabs (w - exact t) <= ((1 + u) ^ n - 1) * size t + INR n * tiny * (1 + u) ^ (n - 1) ->
      Rabs ((1 + d) * (w - exact t)) + Rabs d * Rabs (exact t)
      <= ((1 + u) ^ (n1 + n2) - 1) * size t + INR n * tiny * (1 + u) ^ (n1 + n2 - 1)).
    { intros t n w Ln Lt Ps Es Hw. rewrite Rabs_mult.
      assert (A : Rabs (1 + d) * Rabs (w - exact t)
                  <= (1 + u) * (((1 + u) ^ n - 1) * size t + INR n * tiny * (1 + u) ^ (n - 1)))
        by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
      assert (B : Rabs d * Rabs (exact t) <= u * size t)
        by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
      assert (C : (1 + u) * ((1 + u) ^ n - 1) * size t + u * size t
                  <= ((1 + u) ^ (n1 + n2) - 1) * size t).
      { replace ((1 + u) * ((1 + u) ^ n - 1) * size t + u * size t)
          with (((1 + u) ^ S n - 1) * size t) by (simpl; ring).
        apply Rmult_le_compat_r; [exact Ps|]. assert (G := power_grows _ _ Lt). lra. }
      assert (E : (1 + u) * (INR n * tiny * (1 + u) ^ (n - 1))
                  <= INR n * tiny * (1 + u) ^ (n1 + n2 - 1)).
      { replace ((1 + u) * (INR n * tiny * (1 + u) ^ (n - 1)))
          with (INR n * tiny * ((1 + u) * (1 + u) ^ (n - 1))) by ring.
        apply Rmult_le_compat_l; [apply Rmult_le_pos; [apply pos_INR | exact T]|].
        change ((1 + u) * (1 + u) ^ (n - 1)) with ((1 + u) ^ S (n - 1)).
        apply power_grows. lia. }
      lra. }
    assert (S1 := one_side t1 n1 v1 L1 ltac:(lia) P1 (exact_size t1) IH1).
    assert (S2 := one_side t2 n2 v2 L2 ltac:(lia) P2 (exact_size t2) IH2).
    assert (X : Rabs (d * (exact t1 + exact t2)) <= Rabs d * Rabs (exact t1) + Rabs d * Rabs (exact t2)).
    { rewrite Rabs_mult, <- Rmult_plus_distr_l.
      apply Rmult_le_compat_l; [apply Rabs_pos | apply Rabs_triang]. }
    rewrite plus_INR.
    eapply Rle_trans; [apply Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|]. lra.
Qed.

(* (1 + u)^n <= 1 / (1 - n u) *)
Lemma power_bound : forall n, INR n * u <= 1 -> (1 + u) ^ n * (1 - INR n * u) <= 1.
Proof.
  induction n as [|n IH]; intro Hn; [simpl; lra|].
  rewrite S_INR in *. assert (0 <= INR n) by apply pos_INR.
  assert (P : 0 < (1 + u) ^ n) by (apply pow_lt; lra).
  assert (I : (1 + u) ^ n * (1 - INR n * u) <= 1) by (apply IH; nra).
  simpl. assert (Q : (1 + u) * (1 - (INR n + 1) * u) <= 1 - INR n * u) by nra.
  apply Rle_trans with ((1 + u) ^ n * (1 - INR n * u)); [|exact I].
  replace ((1 + u) * (1 + u) ^ n * (1 - (INR n + 1) * u))
    with ((1 + u) ^ n * ((1 + u) * (1 - (INR n + 1) * u))) by ring.
  apply Rmult_le_compat_l; lra.
Qed.

Theorem accumulated_rounding : forall t v, computed t v -> INR (leaves t) * u <= 1 / 2 ->
  Rabs (v - exact t) <= INR (leaves t) * u / (1 - INR (leaves t) * u) * size t
                        + INR (leaves t) * eta.
Proof.
  intros t v Hv Hn. assert (F := factors t v Hv).
  assert (Ps := size_positive t). assert (L := leaves_positive t).
  set (n := leaves t) in *. assert (N : 0 <= INR n) by apply pos_INR.
  assert (B := power_bound n ltac:(lra)).
  assert (D : 0 < 1 - INR n * u) by lra.
  assert (G : (1 + u) ^ n - 1 <= INR n * u / (1 - INR n * u)).
  { apply Rmult_le_reg_r with (1 - INR n * u); [exact D|].
    replace (INR n * u / (1 - INR n * u) * (1 - INR n * u)) with (INR n * u) by (field; lra). nra. }
  assert (T : tiny * (1 + u) ^ (n - 1) <= eta).
  { assert (M : INR (n - 1) = INR n - 1) by (rewrite minus_INR by lia; simpl; ring).
    assert (C := power_bound (n - 1) ltac:(rewrite M; nra)). rewrite M in C.
    assert (P : 0 < (1 + u) ^ (n - 1)) by (apply pow_lt; lra).
    assert (Q : 1 / 2 <= (1 - (INR n - 1) * u) * (1 - u)).
    { assert (1 <= INR n) by (change 1 with (INR 1); apply le_INR; lia). nra. }
    unfold tiny. apply Rmult_le_reg_r with (2 * (1 - u)); [lra|].
    replace (eta / (2 * (1 - u)) * (1 + u) ^ (n - 1) * (2 * (1 - u)))
      with (eta * (1 + u) ^ (n - 1)) by (field; lra).
    replace (eta * (2 * (1 - u))) with (eta * (2 * (1 - u))) by ring.
    apply Rle_trans with (eta * (2 * (1 - u))); [|lra].
    apply Rmult_le_compat_l; [exact eta_positive|].
    assert (R1 : (1 + u) ^ (n - 1) * (1 / 2) <= (1 + u) ^ (n - 1) * ((1 - (INR n - 1) * u) * (1 - u)))
      by (apply Rmult_le_compat_l; lra).
    assert (R2 : (1 + u) ^ (n - 1) * (1 - (INR n - 1) * u) * (1 - u) <= 1 * (1 - u))
      by (apply Rmult_le_compat_r; lra).
    lra. }
  assert (A1 : ((1 + u) ^ n - 1) * size t <= INR n * u / (1 - INR n * u) * size t)
    by (apply Rmult_le_compat_r; assumption).
  assert (A2 : INR n * tiny * (1 + u) ^ (n - 1) <= INR n * eta)
    by (rewrite Rmult_assoc; apply Rmult_le_compat_l; assumption).
  lra.
Qed.

End Rounding.
