# PyTorch as a second opinion: a Llama and a Mixtral written from the papers (tests/reference/llama.py) agree
# with ours, imported, on logits, loss and every gradient.

load helper

need_torch() {
	python=/usr/bin/python3
	$python -c 'import torch' 2>/dev/null || skip "no python3-torch"
}

same_as_reference() {
	mkdir "$1"
	$python "$repo/tests/reference/llama.py" make "$1" "$1"
	dl-import -f hf "$1" >"$1.ckpt"
	printf '%s\n' '1 5 9 33 2 7 7 39 0 12 4 8 21' '17 3 3 3 25 6 14 38 11 2 0 1 30' \
		'39 22 8 1 19 5 28 36 10 4 13 9 2' >ids
	dl-grad "$1.ckpt" ids "$1.out"
	OMP_NUM_THREADS=1 $python "$repo/tests/reference/llama.py" check "$1" ids "$1.out"
}

@test "an imported Llama: logits, loss and every gradient are those of the reference to 1e-4" {
	need_torch
	run -0 same_as_reference llama
	[ "$(grep -c gradient <<<"$output")" -eq 21 ]
}

@test "an imported Mixtral: logits, loss and every gradient are those of the reference to 1e-4" {
	need_torch
	run -0 same_as_reference mixtral
	[ "$(grep -c gradient <<<"$output")" -eq 46 ]
}
