"""From hidden states to proposals without ever writing logits: the vocabulary matrix is read once, as fast as memory.

Specification: `mercury_kernels.unmask.reference_unmask`. Stage one: each program walks over some tiles of the
vocabulary and keeps running peaks, sums and candidates per row; stage two joins the programs' results in order.
Sampling adds noise that is a hash of (seed, row, id), see `mercury_kernels.noise`. The top-p and top-k cut is one
logit floor per row, found by searching with more passes of the same kind, so only a cut costs more than one read.
"""

import torch
import triton
import triton.language as tl

from mercury_kernels.noise import GOLDEN, MIX_1, MIX_2, fold_seed, signed

BLOCK_R = 32
"""Fixed, so that a row's numbers do not depend on how many rows run with it."""
BLOCK_V = 128
BLOCK_K = 64
PROGRAMS = 264
"""Pieces of the vocabulary: two for each of 132 multiprocessors, whatever the device, so results agree between them."""
MAX_REGISTERS = 224
"""Two programs of 128 threads fit a multiprocessor. Left alone, the assembler aims at three and spills."""
N_CUTS = 8
"""Floors tried in one pass; 16 spill registers."""
CUT_RANGE = 32.0
"""Widest searched distance from the peak in tempered nats: what lies below weighs less than 1e-14."""
CUT_PASSES = 6
"""32 / 7 / 9**5: the floor is found to 8e-5 nats; two logits that close weigh the same."""
NEG = tl.constexpr(-1.0e30)
N_FIELDS = 6
"""Kept per row and program: peak, total, weighted, second, score, chosen logit; the token apart, as an integer."""
_MIX_1, _MIX_2, _GOLDEN = tl.constexpr(MIX_1), tl.constexpr(MIX_2), tl.constexpr(GOLDEN)


@triton.jit
def mix(x):
    x = (x ^ (x >> 16)) * tl.full([1, 1], _MIX_1, tl.uint32)
    x = (x ^ (x >> 15)) * tl.full([1, 1], _MIX_2, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def gumbel(seed, row, ids):
    key = mix(row.to(tl.uint32)[:, None] * tl.full([1, 1], _GOLDEN, tl.uint32) + seed.to(tl.uint32))
    bits = mix(mix(ids.to(tl.uint32)[None, :] + key) ^ key) >> 9
    return -tl.log(-tl.log((bits.to(tl.float32) + 0.5) * 1.1920928955078125e-07))


@triton.jit
def logits_tile(
    hidden_ptr, weight_ptr, scale_ptr, banned_ptr, row, v, first_id, R, V, H, stride_h, stride_w, N_BANNED,
    HAS_SCALE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Logits [BLOCK_R, BLOCK_V] of vocabulary rows v; banned ids and rows beyond V become NEG."""
    h_rows = hidden_ptr + row.to(tl.int64)[:, None] * stride_h
    w_rows = weight_ptr + v.to(tl.int64)[None, :] * stride_w
    logits = tl.zeros([BLOCK_R, BLOCK_V], tl.float32)
    for start in range(0, H, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        hidden = tl.load(h_rows + k[None, :], mask=(row < R)[:, None] & (k < H)[None, :], other=0.0)
        weight = tl.load(w_rows + k[:, None], mask=(v < V)[None, :] & (k < H)[:, None], other=0)
        logits = tl.dot(hidden, weight.to(hidden.dtype), logits, input_precision=PRECISION)
    if HAS_SCALE:
        logits *= tl.load(scale_ptr + v, mask=v < V, other=0.0)[None, :]
    for j in range(N_BANNED):
        banned = tl.load(banned_ptr + row * N_BANNED + j, mask=row < R, other=-1)
        logits = tl.where((first_id + v)[None, :] == banned[:, None], NEG, logits)
    return tl.where((v < V)[None, :], logits, NEG)


@triton.jit(do_not_specialize=["R", "seed", "first_id", "first_part"])
def reduce_kernel(
    hidden_ptr, weight_ptr, scale_ptr, banned_ptr, floor_ptr, part_ptr, token_ptr,
    R, V, H, stride_h, stride_w, N_BANNED, first_id, first_part, n_parts, tiles_each, inverse_temperature, seed,
    HAS_SCALE: tl.constexpr, SAMPLE: tl.constexpr, HAS_FLOOR: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_V: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    part = tl.program_id(1)
    peak = tl.full([BLOCK_R], NEG, tl.float32)
    second = tl.full([BLOCK_R], NEG, tl.float32)
    score = tl.full([BLOCK_R], NEG, tl.float32)
    chosen = tl.full([BLOCK_R], NEG, tl.float32)
    total = tl.zeros([BLOCK_R], tl.float32)
    weighted = tl.zeros([BLOCK_R], tl.float32)
    token = tl.zeros([BLOCK_R], tl.int32)
    column = tl.arange(0, BLOCK_V)
    if HAS_FLOOR:
        floor = tl.load(floor_ptr + row, mask=row < R, other=0.0)
    for tile in range(part * tiles_each, tl.minimum((part + 1) * tiles_each, tl.cdiv(V, BLOCK_V))):
        v = tile * BLOCK_V + column
        logits = logits_tile(
            hidden_ptr, weight_ptr, scale_ptr, banned_ptr, row, v, first_id, R, V, H, stride_h, stride_w, N_BANNED,
            HAS_SCALE, BLOCK_R, BLOCK_V, BLOCK_K, PRECISION,
        )  # fmt: skip
        top, where = tl.max(logits, 1, return_indices=True)
        next_top = tl.max(tl.where(column[None, :] == where[:, None], NEG, logits), 1)
        second = tl.maximum(tl.maximum(second, next_top), tl.minimum(peak, top))
        new_peak = tl.maximum(peak, top)
        shifted = logits - new_peak[:, None]
        probability = tl.where(logits > NEG, tl.exp(shifted), 0.0)
        keep = tl.exp(peak - new_peak)
        # the sum of p * logit for the entropy, carried relative to the running peak; before the first real
        # logit the peak is NEG and both sums are 0, so the product stays 0
        weighted = (weighted + total * (peak - new_peak)) * keep
        weighted += tl.sum(tl.where(logits > NEG, probability * shifted, 0.0), 1)
        total = total * keep + tl.sum(probability, 1)
        if SAMPLE:
            tried = logits * inverse_temperature + gumbel(seed, row, first_id + v)
            allowed = logits > NEG
            if HAS_FLOOR:
                allowed = allowed & (logits > floor[:, None])
            best, where = tl.max(tl.where(allowed, tried, NEG), 1, return_indices=True)
            logit = tl.sum(tl.where(column[None, :] == where[:, None], logits, 0.0), 1)
            better = best > score
            score = tl.where(better, best, score)
            chosen = tl.where(better, logit, chosen)
        else:
            better = top > peak
        token = tl.where(better, first_id + tile * BLOCK_V + where, token)
        peak = new_peak
    if not SAMPLE:
        score, chosen = peak, peak
    at = (first_part + part) * R + row
    step = n_parts * R
    inside = row < R
    tl.store(token_ptr + at, token, mask=inside)
    tl.store(part_ptr + at, peak, mask=inside)
    tl.store(part_ptr + step + at, total, mask=inside)
    tl.store(part_ptr + 2 * step + at, weighted, mask=inside)
    tl.store(part_ptr + 3 * step + at, second, mask=inside)
    tl.store(part_ptr + 4 * step + at, score, mask=inside)
    tl.store(part_ptr + 5 * step + at, chosen, mask=inside)


@triton.jit
def combine_kernel(
    part_ptr, part_token_ptr, token_ptr, confidence_ptr, entropy_ptr, margin_ptr, peak_ptr, R, n_parts,
    PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    inside = part < n_parts
    at = part * R + row
    step = n_parts * R
    peaks = tl.load(part_ptr + at, mask=inside, other=NEG)
    totals = tl.load(part_ptr + step + at, mask=inside, other=0.0)
    weighted = tl.load(part_ptr + 2 * step + at, mask=inside, other=0.0)
    seconds = tl.load(part_ptr + 3 * step + at, mask=inside, other=NEG)
    scores = tl.load(part_ptr + 4 * step + at, mask=inside, other=NEG)
    chosen = tl.load(part_ptr + 5 * step + at, mask=inside, other=0.0)
    tokens = tl.load(part_token_ptr + at, mask=inside, other=0)
    peak, where = tl.max(peaks, 0, return_indices=True)
    second = tl.maximum(tl.max(tl.where(part == where, NEG, peaks), 0), tl.max(seconds, 0))
    share = tl.exp(peaks - peak)
    total = tl.sum(totals * share, 0)
    # a part that saw only banned ids has the peak NEG and the sums 0
    mean = tl.sum(tl.where(peaks > NEG, (weighted + totals * (peaks - peak)) * share, 0.0), 0) / total
    _, winner = tl.max(scores, 0, return_indices=True)
    logit = tl.sum(tl.where(part == winner, chosen, 0.0), 0)
    tl.store(token_ptr + row, tl.sum(tl.where(part == winner, tokens, 0), 0).to(tl.int64))
    tl.store(confidence_ptr + row, tl.exp(logit - peak) / total)
    tl.store(entropy_ptr + row, tl.log(total) - mean)
    tl.store(margin_ptr + row, (1.0 - tl.exp(second - peak)) / total)
    tl.store(peak_ptr + row, peak)


@triton.jit(do_not_specialize=["R", "first_id", "first_part"])
def cut_kernel(
    hidden_ptr, weight_ptr, scale_ptr, banned_ptr, floors_ptr, peak_ptr, mass_ptr, count_ptr,
    R, V, H, stride_h, stride_w, N_BANNED, first_id, first_part, tiles_each, inverse_temperature,
    HAS_SCALE: tl.constexpr, N_CUTS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """For each row and each of N_CUTS floors: the tempered mass above it (relative to the peak) and the count."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    part = tl.program_id(1)
    cut = tl.arange(0, N_CUTS)
    peak = tl.load(peak_ptr + row, mask=row < R, other=0.0)
    mass = tl.zeros([BLOCK_R, N_CUTS], tl.float32)
    count = tl.zeros([BLOCK_R, N_CUTS], tl.int32)
    for tile in range(part * tiles_each, tl.minimum((part + 1) * tiles_each, tl.cdiv(V, BLOCK_V))):
        logits = logits_tile(
            hidden_ptr, weight_ptr, scale_ptr, banned_ptr, row, tile * BLOCK_V + tl.arange(0, BLOCK_V), first_id,
            R, V, H, stride_h, stride_w, N_BANNED, HAS_SCALE, BLOCK_R, BLOCK_V, BLOCK_K, PRECISION,
        )  # fmt: skip
        weight = tl.where(logits > NEG, tl.exp((logits - peak[:, None]) * inverse_temperature), 0.0)
        for j in range(N_CUTS):
            floor = tl.load(floors_ptr + row * N_CUTS + j, mask=row < R, other=0.0)
            above = (logits > floor[:, None]) & (logits > NEG)
            here = (cut == j)[None, :]
            mass += tl.where(here, tl.sum(tl.where(above, weight, 0.0), 1)[:, None], 0.0)
            count += tl.where(here, tl.sum(above.to(tl.int32), 1)[:, None], 0)
    at = ((first_part + part) * R + row)[:, None] * N_CUTS + cut[None, :]
    tl.store(mass_ptr + at, mass, mask=(row < R)[:, None])
    tl.store(count_ptr + at, count, mask=(row < R)[:, None])


class _Reduction:
    """One call's inputs and the plan: which vocabulary tiles each program walks over."""

    def __init__(self, hidden, vocabulary, banned):
        self.hidden = hidden if hidden.stride(-1) == 1 else hidden.contiguous()
        self.R, self.H = hidden.shape
        self.banned = hidden if banned is None else banned.contiguous()
        self.n_banned = 0 if banned is None else banned.shape[1]
        sizes = [weight.shape[0] for weight, _ in vocabulary]
        each = max(1, triton.cdiv(sum(triton.cdiv(n, BLOCK_V) for n in sizes), PROGRAMS))
        self.pieces, first_id, self.n_parts = [], 0, 0
        for (weight, scale), n in zip(vocabulary, sizes, strict=True):
            parts = triton.cdiv(triton.cdiv(n, BLOCK_V), each)
            self.pieces.append((weight, scale, first_id, self.n_parts, parts, each))
            first_id += n
            self.n_parts += parts

    def run(self, kernel, before, after, more_sizes, options):
        """Launch `kernel` once per vocabulary piece; before, after: its own pointers and its own last scalars."""
        precision = "ieee" if self.hidden.dtype == torch.float32 else "tf32"
        for weight, scale, first_id, first_part, parts, each in self.pieces:
            kernel[(triton.cdiv(self.R, BLOCK_R), parts)](
                self.hidden, weight, self.hidden if scale is None else scale, self.banned, *before,
                self.R, weight.shape[0], self.H, self.hidden.stride(0), weight.stride(0), self.n_banned,
                first_id, first_part, *more_sizes, each, *after, HAS_SCALE=scale is not None, **options,
                BLOCK_R=BLOCK_R, BLOCK_V=BLOCK_V, BLOCK_K=BLOCK_K, PRECISION=precision,
                num_warps=4, num_stages=4, maxnreg=MAX_REGISTERS,
            )  # fmt: skip

    def propose(self, inverse_temperature=0.0, seed=0, floor=None):
        """-> token, confidence, entropy, margin, peak, each [R]."""
        device, R = self.hidden.device, self.R
        part = torch.empty(N_FIELDS, self.n_parts, R, dtype=torch.float32, device=device)
        part_token = torch.empty(self.n_parts, R, dtype=torch.int32, device=device)
        self.run(
            reduce_kernel, (self.hidden if floor is None else floor, part, part_token),
            (inverse_temperature, signed(fold_seed(seed))), (self.n_parts,),
            {"SAMPLE": inverse_temperature > 0, "HAS_FLOOR": floor is not None},
        )  # fmt: skip
        token = torch.empty(R, dtype=torch.int64, device=device)
        numbers = [torch.empty(R, dtype=torch.float32, device=device) for _ in range(4)]
        combine_kernel[(R,)](
            part, part_token, token, *numbers, R, self.n_parts, PARTS=triton.next_power_of_2(self.n_parts)
        )
        return token, *numbers

    def find_floor(self, peak, temperature, top_p, top_k):
        """The logit [R] above which the tokens stand that top_p and top_k keep; -inf where they cut nothing.

        A token is kept while the mass strictly above it is below top_p and fewer than top_k are above it.
        """
        low, high = torch.zeros_like(peak), torch.full_like(peak, float("inf"))
        steps = torch.arange(1, N_CUTS + 1, device=peak.device, dtype=torch.float32)
        goal = None
        for i in range(CUT_PASSES):
            if i == 0:  # the last of the first floors is below everything: its mass is the whole
                gap = (steps * (CUT_RANGE / (N_CUTS - 1))).repeat(self.R, 1)
                gap[:, -1] = float("inf")
            else:
                width = torch.where(high.isinf(), 0.0, high - low)
                gap = low[:, None] + width[:, None] * steps / (N_CUTS + 1)
            mass = torch.empty(self.n_parts, self.R, N_CUTS, dtype=torch.float32, device=peak.device)
            count = torch.empty(self.n_parts, self.R, N_CUTS, dtype=torch.int32, device=peak.device)
            floors = (peak[:, None] - gap * temperature).contiguous()
            self.run(cut_kernel, (floors, peak, mass, count), (1 / temperature,), (), {"N_CUTS": N_CUTS})
            mass, count = mass.sum(0), count.sum(0)
            goal = mass[:, -1:] * top_p if goal is None else goal
            inside = (mass < goal) if top_p < 1 else torch.ones_like(mass, dtype=torch.bool)
            if top_k > 0:
                inside &= count < top_k
            low = torch.maximum(low, torch.where(inside, gap, 0.0).amax(1))
            high = torch.minimum(high, torch.where(inside, float("inf"), gap).amin(1))
        return peak - high * temperature


def _join(vocabulary):
    """Tiles that are adjacent views of one matrix become that matrix again: one launch that fills the device."""
    weights, scales = [w for w, _ in vocabulary], [s for _, s in vocabulary]
    joined = _join_views(weights)
    scale = None if scales[0] is None else _join_views(scales)
    if joined is None or (scales[0] is not None and scale is None):
        return list(vocabulary)
    return [(joined, scale)]


def _join_views(parts):
    first, at = parts[0], parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or part.storage_offset() != at or part.stride() != first.stride() or part.dtype != first.dtype:
            return None
        at += part.shape[0] * part.stride(0)
    return first.as_strided((sum(p.shape[0] for p in parts), *first.shape[1:]), first.stride(), first.storage_offset())


def unmask(hidden, vocabulary, *, temperature=0.0, top_p=1.0, top_k=0, banned=None, seed=0):
    """hidden [R, H]; vocabulary: (weight [v, H] dense or int8, scale [v] or None) in order; banned i64 [R, n] or None.

    -> token i64 [R], confidence, entropy, margin f32 [R], as `mercury_kernels.unmask.unmask`.
    """
    reduction = _Reduction(hidden, _join(vocabulary), banned)
    if reduction.R == 0:
        numbers = [torch.empty(0, dtype=torch.float32, device=hidden.device) for _ in range(3)]
        return torch.empty(0, dtype=torch.int64, device=hidden.device), *numbers
    if temperature <= 0:
        return reduction.propose()[:4]
    floor = None
    if top_p < 1 or top_k > 0:
        floor = reduction.find_floor(reduction.propose()[4], temperature, top_p, top_k)
    return reduction.propose(1 / temperature, seed, floor)[:4]
