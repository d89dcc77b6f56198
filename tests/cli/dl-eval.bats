# dl-eval: how good a checkpoint is on a shard, and what it writes.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	corpus 20000 >text.txt
	dl-data --holdout 0.2 --block 512 -o text text.txt
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' >small.conf
	dl-init -c small.conf --seed 3 >g0.ckpt
	sed 's/^/vocab 300\n/;q' small.conf >ids.conf
	sed 1d small.conf >>ids.conf
	dl-init -c ids.conf >ids.ckpt
	seq 0 299 | dl-data --ids --vocab 300 -o ids
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{text.tok,text.valid.tok,ids.tok,small.conf,ids.ckpt} .
	cp "$BATS_FILE_TMPDIR/g0.ckpt" .
}

# value KEY: from the JSON in $output.
value() {
	sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$output"
}

# near A B: equal to a millionth.
near() {
	awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }' || complain "$1 is not $2"
}

@test "a shard is measured in four aligned lines" {
	run -0 --separate-stderr dl-eval -d text.valid.tok g0.ckpt
	expect_no_stderr
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[0]} =~ ^loss\ {11}5\.5[0-9]{5}$ ]]
	[[ ${lines[1]} =~ ^perplexity\ {5}2[0-9]{2}\.[0-9]+$ ]]
	[[ ${lines[2]} =~ ^bits\ per\ byte\ \ 7\.9[0-9]{5}|8\.0[0-9]{5}$ ]]
	[[ ${lines[3]} =~ ^tokens\ {9}[0-9]+$ ]]
	text=$output
	run -0 --separate-stderr dl-eval -d text.valid.tok <g0.ckpt
	expect_stdout "$text"
	run -0 --separate-stderr dl-eval -d text.valid.tok - <g0.ckpt
	expect_stdout "$text"
}

@test "--json is one object that says the same, and of which checkpoint" {
	run -0 --separate-stderr dl-eval --json -d text.valid.tok g0.ckpt
	expect_no_stderr
	expect_stdout_like '^\{"file":"g0.ckpt","loss":[0-9.]+,"perplexity":[0-9.]+,"bits_per_byte":[0-9.]+,"tokens":[0-9]+,"step":0,"round":0,"checkpoint":"[0-9a-f]{64}"\}$'
	near "$(value bits_per_byte)" "$(awk -v l="$(value loss)" -v n="$(value tokens)" \
		'BEGIN { printf "%.9f", l / log(2) }')"
}

@test "several checkpoints are measured one after the other, each under its name" {
	dl-init -c small.conf --seed 4 >g1.ckpt
	run -0 --separate-stderr dl-eval -d text.valid.tok g0.ckpt - <g1.ckpt
	expect_no_stderr
	expect_stdout "file           g0.ckpt
$(dl-eval -d text.valid.tok g0.ckpt)

file           standard input
$(dl-eval -d text.valid.tok g1.ckpt)"
	run -0 --separate-stderr dl-eval --json -d text.valid.tok g1.ckpt g0.ckpt
	expect_stdout "$(dl-eval --json -d text.valid.tok g1.ckpt)
$(dl-eval --json -d text.valid.tok g0.ckpt)"
}

@test "a checkpoint that cannot be measured ends it, after those before it" {
	run -1 --separate-stderr dl-eval -d text.valid.tok g0.ckpt ids.ckpt g0.ckpt
	expect_stdout "file           g0.ckpt
$(dl-eval -d text.valid.tok g0.ckpt)"
	expect_stderr_line "^dl-eval: ids.ckpt: text.valid.tok: vocabulary of 256, the model's is 300 "
	run -2 --separate-stderr dl-eval -d text.valid.tok - -
	expect_stderr_line "^dl-eval: standard input can be read only once$"
	run -2 --separate-stderr dl-eval --sample 3 g0.ckpt ids.ckpt
	expect_stderr_line "^dl-eval: --sample takes one checkpoint, not 'ids.ckpt' too$"
}

@test "batch and threads do not change the result" {
	run -0 --separate-stderr dl-eval --json -d text.valid.tok g0.ckpt
	local want options
	want=$(value loss)
	for options in "-B 1 -j 1" "-B 3 -j 2" "-B 64 -j 3" "-B 100000"; do
		# shellcheck disable=SC2086 # words on purpose
		run -0 --separate-stderr dl-eval --json $options -d text.valid.tok g0.ckpt
		near "$(value loss)" "$want"
	done
}

@test "training makes the held-out loss fall" {
	command -v dl-merge >/dev/null || skip "no dl-merge"
	run -0 --separate-stderr dl-eval --json -d text.valid.tok g0.ckpt
	local before
	before=$(value loss)
	dl-learn -n 60 --lr 0.02 -d text.tok g0.ckpt | dl-merge --outer-lr 1 --momentum 0 g0.ckpt - >g1.ckpt
	run -0 --separate-stderr dl-eval --json -d text.valid.tok g1.ckpt
	awk -v a="$(value loss)" -v b="$before" 'BEGIN { exit !(a < b - 1) }'
}

@test "bits per byte are unknown where the bytes are" {
	run -0 --separate-stderr dl-eval -d ids.tok ids.ckpt
	expect_stdout_like $'\nbits per byte  unknown\n'
	run -0 --separate-stderr dl-eval --json -d ids.tok ids.ckpt
	expect_stdout_like '"bits_per_byte":null,'
}

@test "SentencePiece's ids go in by a pipe, come out as text, and are measured by the byte" {
	command -v spm_train >/dev/null && command -v spm_encode >/dev/null || skip "no SentencePiece"
	corpus 50000 >text
	spm_train --input=text --model_prefix=m --vocab_size=120 --hard_vocab_limit=false --minloglevel=2 2>/dev/null
	local before vocab
	vocab=$(wc -l <m.vocab)
	spm_encode --model=m.model --output_format=id <text | dl-data --ids --vocab "$vocab" --bytes 50000 -o pieces
	sed "1i vocab $vocab" small.conf | dl-init -c - >old.ckpt
	dl-learn -n 100 --lr 0.02 -d pieces.tok old.ckpt | dl-merge --outer-lr 1 old.ckpt - >new.ckpt
	run -0 --separate-stderr dl-eval --json -d pieces.tok old.ckpt
	before=$(value bits_per_byte)
	run -0 --separate-stderr dl-eval --json -d pieces.tok new.ckpt
	awk -v a="$(value bits_per_byte)" -v b="$before" 'BEGIN { exit !(a > 0 && a < b - 0.3) }' ||
		complain "bits per byte were $before"
	dl-eval --sample 10 --prompt "$(echo "The old river" | spm_encode --model=m.model --output_format=id)" new.ckpt |
		spm_decode --model=m.model --input_format=id | grep '^The old river'
}

@test "a shard without a token to predict is an error, not a number" {
	printf x >one.txt
	printf xy >two.txt
	dl-data -o one one.txt
	dl-data -o two two.txt
	run -1 --separate-stderr dl-eval -d one.tok g0.ckpt
	expect_stdout ""
	expect_stderr_line "^dl-eval: one.tok: too short: 1 tokens, of which none can be predicted$"
	run -0 --separate-stderr dl-eval -d two.tok g0.ckpt
	expect_stdout_like $'\ntokens         1$'
}

@test "a shard of another vocabulary than the model's is refused" {
	run -1 --separate-stderr dl-eval -d ids.tok g0.ckpt
	expect_stdout ""
	expect_stderr_line "^dl-eval: ids.tok: vocabulary of 300, the model's is 256 [(]dl-data --vocab, dl-model[(]5[)][)]$"
	run -1 --separate-stderr dl-eval -d text.tok ids.ckpt
	expect_stderr_line "^dl-eval: text.tok: vocabulary of 256, the model's is 300 "
}

@test "a smaller context measures worse windows, a larger one than the model's is refused" {
	dl-eval -T 4 -d text.valid.tok g0.ckpt >small
	dl-eval -d text.valid.tok g0.ckpt >large
	expect_differ small large
	[ "$(tail -n 1 small)" = "$(tail -n 1 large)" ]
	run -2 --separate-stderr dl-eval -T 33 -d text.valid.tok g0.ckpt
	expect_stderr_line "^dl-eval: g0.ckpt: a context of 33 tokens is longer than the model's 32$"
}

@test "a sample goes on from the prompt, the same for the same seed" {
	dl-eval --sample 50 --prompt 'the old' g0.ckpt >a
	dl-eval --sample 50 --prompt 'the old' --seed 0 --temperature 1 -j 1 <g0.ckpt >b
	dl-eval --sample 50 --prompt 'the old' --seed 7 g0.ckpt >c
	[ "$(wc -c <a)" -eq 57 ]
	[ "$(head -c 7 a)" = "the old" ]
	expect_same a b
	expect_differ a c
}

@test "temperature 0 and one choice are the same" {
	dl-eval --sample 40 --temperature 0 --seed 1 g0.ckpt >a
	dl-eval --sample 40 --temperature 0 --seed 2 g0.ckpt >b
	dl-eval --sample 40 --top-k 1 --seed 3 g0.ckpt >c
	[ "$(wc -c <a)" -eq 40 ]
	expect_same a b
	expect_same a c
}

# sample_on PROMPT: to a.
sample_on() {
	dl-eval --sample 5 --prompt "$1" g0.ckpt >a
}
@test "a prompt may be longer than the context, and of any bytes" {
	local long
	long=$(corpus 100)
	run -0 --separate-stderr sample_on "$long"
	expect_stderr_line "^dl-eval: prompt: of its 100 tokens the model sees the last 32$"
	[ "$(wc -c <a)" -eq 105 ]
	run -0 --separate-stderr sample_on "${long:0:32}"
	expect_no_stderr
	dl-eval --sample 5 --prompt $'\xe2\x81' g0.ckpt >a
	[ "$(wc -c <a)" -eq 7 ]
}

@test "a vocabulary that is not bytes is prompted and sampled as ids" {
	run -0 --separate-stderr dl-eval --sample 5 --prompt "1 299" ids.ckpt
	expect_stdout_like '^1 299( [0-9]+){5}$'
	run -0 --separate-stderr dl-eval --sample 5 ids.ckpt
	expect_stdout_like '^[0-9]+( [0-9]+){4}$'
	run -2 --separate-stderr dl-eval --sample 5 --prompt "1 300" ids.ckpt
	expect_stderr_line "^dl-eval: prompt: '300' is not an id below 300$"
	run -2 --separate-stderr dl-eval --sample 5 --prompt "hello" ids.ckpt
	expect_stderr_line "^dl-eval: prompt: 'hello' is not an id below 300$"
}

@test "a terminal is spared control characters" {
	command -v script >/dev/null || skip "no script"
	# An untrained model writes any byte.
	run -0 script -qec 'dl-eval --sample 400 g0.ckpt' /dev/null </dev/null
	[[ $output == *\\x* ]]
	! LC_ALL=C grep -q $'[\x01-\x08\x0e-\x1f\x7f]' <<<"$output" || complain "control characters"
}

@test "what makes no sense as an option is a usage error" {
	local bad
	for bad in "" "-d text.valid.tok --sample 3" "--sample 0" "--sample -1" "--sample x" "--sample 3 --temperature -1" \
		"--sample 3 --temperature nan" "--sample 3 --temperature 0,5" "--sample 3 --top-k 0" "--sample 3 --json" \
		"--sample 3 -B 2" "-d text.valid.tok --prompt a" "-d text.valid.tok --seed 1" "-d text.valid.tok -B 0" \
		"-d text.valid.tok -T -2" "-d text.valid.tok -j 0" "-d text.valid.tok -n 3"; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr dl-eval $bad g0.ckpt
		[ "$status" -eq 2 ] || complain "for $bad"
		expect_stdout ""
		expect_stderr_line "^dl-eval: " || complain "for $bad"
	done
	run -2 --separate-stderr dl-eval --sample 3 --prompt '' g0.ckpt
	expect_stderr_line "^dl-eval: prompt: nothing to go on from$"
}

@test "what is no checkpoint, or cut, or a stranger's, is refused" {
	dl-learn -n 1 -d text.tok -o a.delta g0.ckpt
	run -1 --separate-stderr dl-eval -d text.valid.tok a.delta
	expect_stderr_line "^dl-eval: a.delta: is a delta, not a checkpoint$"
	run -1 --separate-stderr dl-eval -d g0.ckpt g0.ckpt
	expect_stderr_line "^dl-eval: g0.ckpt: is a checkpoint, not a shard$"
	head -c -1 g0.ckpt >cut.ckpt
	run -3 --separate-stderr dl-eval -d text.valid.tok cut.ckpt
	expect_stderr_line "^dl-eval: cut.ckpt: "
	run -1 --separate-stderr dl-eval -d missing.tok g0.ckpt
	expect_stderr_line "^dl-eval: missing.tok: No such file or directory$"
	new_home
	run -3 --separate-stderr dl-eval -d text.valid.tok g0.ckpt
	expect_stderr_line "not trusted"
}

# huge FILE: g0 with 1e18 for every value.
huge() {
	local header
	dl-export -f safetensors -o huge.st g0.ckpt
	header=$((8 + $(od -An -tu8 -N 8 huge.st)))
	{ head -c $header huge.st; yes "$(printf '\153\013\136\135')" | tr -d '\n'; } 2>/dev/null |
		head -c "$(stat -c %s huge.st)" | dl-import -f safetensors -o "$1" -
}
@test "a model that is broken is told by its name, one or several" {
	huge broken.ckpt
	run -1 --separate-stderr dl-eval -d text.valid.tok broken.ckpt
	expect_stderr_line "^dl-eval: broken.ckpt: the loss is (not finite|beyond measure): the model is broken$"
	run -1 --separate-stderr dl-eval -d text.valid.tok g0.ckpt broken.ckpt
	expect_stderr_line "^dl-eval: broken.ckpt: the loss is (not finite|beyond measure): the model is broken$"
	run -1 --separate-stderr dl-eval --json -d text.valid.tok <broken.ckpt
	expect_stderr_line "^dl-eval: standard input: the loss is (not finite|beyond measure): the model is broken$"
}

@test "the locale changes no number" {
	dl-eval --json -d text.valid.tok g0.ckpt >want
	LC_ALL=de_DE.UTF-8 dl-eval --json -d text.valid.tok g0.ckpt >have
	expect_same have want
}

@test "output that cannot be written is an error" {
	run -1 --separate-stderr sh -c 'dl-eval -d text.valid.tok g0.ckpt >/dev/full'
	expect_stderr_line "^dl-eval: standard output: No space left on device$"
	run -1 --separate-stderr sh -c 'dl-eval --sample 3 g0.ckpt >/dev/full'
	expect_stderr_line "^dl-eval: .*No space left on device$"
	run -1 --separate-stderr sh -c 'dl-eval -d text.valid.tok g0.ckpt >&-'
	expect_stderr_line "^dl-eval: standard output: "
}

@test "a text where a shard belongs is refused with what makes one of it" {
	echo hello >plain.txt
	dl-init -o plain.ckpt
	run -1 --separate-stderr dl-eval -d plain.txt plain.ckpt
	expect_stderr_line '^dl-eval: plain\.txt: not a dl file: dl-data makes shards$'
	run -1 --separate-stderr bash -c 'dl-eval -d - plain.ckpt <plain.txt'
	expect_stderr_line '^dl-eval: standard input: not a dl file: dl-data makes shards$'
	run -1 --separate-stderr dl-learn -n 1 -d plain.txt plain.ckpt
	expect_stderr_line '^dl-learn: plain\.txt: not a dl file: dl-data makes shards$'
}
