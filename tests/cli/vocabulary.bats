# Vocabularies: shards and models that know what their ids stand for, and are told apart by it.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	cp "$repo/tests/fuzz/seeds/vocab/bpe" m.model       # 12 pieces
	cp "$repo/tests/fuzz/seeds/vocab/unigram" n.model   # 9 pieces
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' 'batch 2' >bare.conf
	awk 'BEGIN { for (i = 0; i < 400; i++) print i * i % 9 }' >ids
	dl-init -c bare.conf --tokenizer m.model --seed 3 >m.ckpt
	dl-data --ids --tokenizer m.model -o m ids
	dl-data --ids --tokenizer n.model --vocab 12 -o n ids
	dl-data --ids --vocab 12 -o unknown ids
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{m.model,n.model,bare.conf,ids,m.ckpt,m.tok,n.tok,unknown.tok} .
}

# vocabulary FILE: the digest in its header.
vocabulary() {
	dl-show "$1" | sed -n 's/^ *\(conf\.\)\?vocabulary *//p'
}

@test "--tokenizer gives shard and model the size and the same digest; a file of the same pieces, too" {
	[[ $(vocabulary m.tok) =~ ^[0-9a-f]{64}$ ]]
	[ "$(vocabulary m.tok)" = "$(vocabulary m.ckpt)" ]
	[ "$(vocabulary n.tok)" != "$(vocabulary m.tok)" ]
	[ -z "$(vocabulary unknown.tok)" ]
	run -0 dl-show m.ckpt
	expect_stdout_like 'conf.vocab +12'
	run -0 dl-show m.tok
	expect_stdout_like ' vocab +12'
	mkdir directory
	cp m.model directory/tokenizer.model
	dl-data --ids --tokenizer directory -o d ids
	[ "$(vocabulary d.tok)" = "$(vocabulary m.tok)" ]
	dl-data --ids --tokenizer "$(vocabulary m.tok)" --vocab 12 -o e ids
	[ "$(vocabulary e.tok)" = "$(vocabulary m.tok)" ]
}

@test "the size: a preset's is an example, a configuration's must have room for the pieces" {
	run -0 dl-init --print -c tiny --tokenizer m.model
	expect_stdout_like '^vocab +12 '
	{ echo 'vocab 20'; cat bare.conf; } >padded.conf
	run -0 dl-init --print -c padded.conf --tokenizer m.model
	expect_stdout_like '^vocab +20 '
	{ echo 'vocab 8'; cat bare.conf; } >few.conf
	run -2 --separate-stderr dl-init -c few.conf --tokenizer m.model
	expect_stderr_line '^dl-init: few.conf: vocab 8 is fewer than the 12 pieces of m.model$'
	dl-init -c few.conf -o few.ckpt
	run -2 --separate-stderr dl-init -r run --tokenizer m.model few.ckpt
	expect_stderr_line '^dl-init: few.ckpt: its vocab 8 is fewer than the 12 pieces of m.model$'
	expect_no_file run
	run -2 --separate-stderr dl-data --ids --vocab 8 --tokenizer m.model ids
	expect_stderr_line '^dl-data: option --vocab: m.model has 12 pieces$'
	run -2 --separate-stderr dl-data --ids --tokenizer "$(vocabulary m.tok)" ids
	expect_stderr_line '^dl-data: a digest does not tell the size of the vocabulary: --vocab N$'
	run -2 --separate-stderr dl-data --tokenizer m.model ids
	expect_stderr_line '^dl-data: option --tokenizer goes with --ids or --binary$'
	run -1 --separate-stderr dl-data --ids --tokenizer ids ids
	expect_stderr_line '^dl-data: ids: not a SentencePiece model'
	run -1 --separate-stderr bash -c 'echo 12 | dl-data --ids --tokenizer m.model'
	expect_stderr_line '^dl-data: standard input: line 1: id 12 is not below the vocabulary of 12$'
}

@test "a tokenizer that can't be read is named, not the configuration" {
	mkdir none
	run -1 --separate-stderr dl-init -c tiny --tokenizer none
	expect_stderr_line '^dl-init: none/tokenizer\.model: No such file or directory$'
	run -1 --separate-stderr dl-init -r run --tokenizer none
	expect_stderr_line '^dl-init: none/tokenizer\.model: No such file or directory$'
	run -2 --separate-stderr dl-init -c tiny --tokenizer ids
	expect_stderr_line '^dl-init: ids: not a SentencePiece model'
	expect_no_file run
}

@test "no output takes the place of the tokenizer, nor a shard that of the lines it is made from" {
	mkdir directory
	cp m.model directory/tokenizer.model
	cp m.model own.tok
	cp ids lines.tok
	run -2 --separate-stderr dl-data --ids --tokenizer own.tok -o own ids
	expect_stderr_line '^dl-data: own\.tok: is an input, which the output would replace$'
	run -2 --separate-stderr dl-data --ids --vocab 12 -o lines lines.tok
	expect_stderr_line '^dl-data: lines\.tok: is an input, which the output would replace$'
	run -2 --separate-stderr dl-data --binary u16 --vocab 65536 -o lines lines.tok
	expect_stderr_line '^dl-data: lines\.tok: is an input, which the output would replace$'
	run -2 --separate-stderr dl-init -c bare.conf --tokenizer directory -o directory/tokenizer.model
	expect_stderr_line '^dl-init: directory/tokenizer\.model: is an input, which the output would replace$'
	ln -sf ../own.tok directory/tokenizer.model
	run -2 --separate-stderr dl-data --ids --tokenizer directory -o own ids
	expect_stderr_line '^dl-data: own\.tok: is an input, which the output would replace$'
	expect_same own.tok m.model
	expect_same lines.tok ids
}

@test "a shard of another vocabulary is refused, whatever its size; an unknown one is judged by its size" {
	local why="made with another vocabulary than the model: [0-9a-f]{16}, the model's is [0-9a-f]{16}"
	run -1 --separate-stderr dl-learn -n 1 -d n.tok -o a.delta m.ckpt
	expect_stderr_line "^dl-learn: n.tok: $why$"
	run -1 --separate-stderr dl-eval -d n.tok m.ckpt
	expect_stderr_line "^dl-eval: n.tok: $why$"
	expect_no_file a.delta
	dl-learn -n 1 -d m.tok m.ckpt >a.delta
	dl-learn -n 1 -d unknown.tok m.ckpt >b.delta
	dl-eval -d m.tok m.ckpt
	{ echo 'vocab 12'; cat bare.conf; } >sized.conf
	dl-init -c sized.conf --seed 3 >unknown.ckpt
	dl-eval -d n.tok unknown.ckpt
}

@test "with the digest a shard may have fewer ids than a padded model, never more" {
	{ echo 'vocab 20'; cat bare.conf; } >padded.conf
	dl-init -c padded.conf --tokenizer m.model >padded.ckpt
	dl-learn -n 1 -d m.tok padded.ckpt >a.delta
	dl-eval -d m.tok padded.ckpt
	run -1 --separate-stderr dl-eval -d unknown.tok padded.ckpt
	expect_stderr_line "^dl-eval: unknown.tok: vocabulary of 12, the model's is 20 "
	dl-data --ids --vocab 20 --tokenizer m.model -o wide ids
	run -1 --separate-stderr dl-eval -d wide.tok m.ckpt
	expect_stderr_line "^dl-eval: wide.tok: vocabulary of 20, the model's is 12 "
}

@test "it goes with the model through merges, into a run directory, and to its learners" {
	dl-learn -n 1 -d m.tok m.ckpt >a.delta
	dl-merge m.ckpt a.delta >next.ckpt
	[ "$(vocabulary next.ckpt)" = "$(vocabulary m.ckpt)" ]
	dl-init -r run -P 2 -H 2 --target-steps 2 next.ckpt
	run -1 --separate-stderr dl-learn -r run -i a -d n.tok
	expect_stderr_line "^dl-learn: n.tok: made with another vocabulary than the model: "
	run -2 --separate-stderr dl-init -r other --tokenizer n.model next.ckpt
	expect_stderr_line "^dl-init: n.model: another vocabulary than the checkpoint's: [0-9a-f]{16}, and that is [0-9a-f]{16}$"
	dl-init -r again --tokenizer m.model next.ckpt
}

@test "ids of a small vocabulary are ids, not bytes" {
	[ "$(dl-data -d m.tok | head -n 3 | xargs)" = "0 1 4" ]
	run -0 dl-eval --sample 5 --prompt '1 4' --temperature 0 m.ckpt
	expect_stdout_like '^1 4( [0-9]+){5}$'
	run -2 --separate-stderr dl-eval --sample 5 --prompt '1 12' m.ckpt
	expect_stderr_line "^dl-eval: prompt: '12' is not an id below 12$"
}

@test "--logprobs: a line for each token predicted, whose mean is the loss" {
	run -0 --separate-stderr dl-eval -d m.tok --logprobs m.ckpt
	expect_no_stderr
	[ "${lines[0]}" = $'position\tid\tlogprob' ]
	[ "${#lines[@]}" -eq 400 ]
	grep -qxE $'5\t7\t-[0-9.]+' <<<"${lines[5]}"
	mean=$(awk 'NR > 1 { s -= $3 } END { printf "%.4f", s / (NR - 1) }' <<<"$output")
	loss=$(dl-eval -d m.tok m.ckpt | sed -n 's/^loss *//p')
	[ "$mean" = "$(printf %.4f "$loss")" ] || complain "$mean is not $loss"
	first=$output
	run -0 --separate-stderr dl-eval -d m.tok --logprobs -B 7 -j 3 m.ckpt
	diff <(cut -f1,2 <<<"$first") <(cut -f1,2 <<<"$output")
	run -2 --separate-stderr dl-eval -d m.tok --logprobs --json m.ckpt
	run -2 --separate-stderr dl-eval -d m.tok --logprobs m.ckpt m.ckpt
	run -2 --separate-stderr dl-eval --sample 2 --logprobs m.ckpt
	run -1 --separate-stderr sh -c 'dl-eval -d m.tok --logprobs m.ckpt >/dev/full'
	expect_stderr_line '^dl-eval: standard output: '
}

@test "an imported model knows the vocabulary that lies beside it" {
	dl-export -f hf -q -o plain m.ckpt
	dl-import -f hf plain >plain.ckpt
	[ -z "$(vocabulary plain.ckpt)" ]
	cp m.model plain/tokenizer.model
	run -0 --separate-stderr dl-import -f hf -o known.ckpt plain
	expect_no_stderr
	[ "$(vocabulary known.ckpt)" = "$(vocabulary m.ckpt)" ]
	run -1 --separate-stderr dl-eval -d n.tok known.ckpt
	expect_stderr_line '^dl-eval: n.tok: made with another vocabulary '
	dl-export -f gguf --tokenizer plain -q -o known.gguf known.ckpt
	echo 'of another kind' >plain/tokenizer.model
	run -0 --separate-stderr dl-import -f hf -o unknown.ckpt plain
	expect_stderr_line '^dl-import: plain/tokenizer.model: not a SentencePiece model.*; the checkpoint will not know its vocabulary$'
	[ -z "$(vocabulary unknown.ckpt)" ]
}

@test "a vocabulary larger than the embedding is refused" {
	{ echo 'vocab 8'; cat bare.conf; } >few.conf
	dl-init -c few.conf >few.ckpt
	dl-export -f hf -q -o few few.ckpt
	cp m.model few/tokenizer.model
	run -1 --separate-stderr dl-import -f hf -o out.ckpt few
	expect_stderr_line '^dl-import: few/tokenizer.model: 12 pieces, and the embedding has 8 rows$'
	expect_no_file out.ckpt
}
