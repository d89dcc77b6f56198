# dl-export: a sealed file in, a format of others out.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 2' 'heads 4' 'kv_heads 2' 'ff 32' 'context 32' 'vocab 300' >small.conf
	dl-init -c small.conf --seed 3 >g0.ckpt
	{ cat small.conf; echo 'experts 4'; } | dl-init -c - >moe.ckpt
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{g0.ckpt,moe.ckpt,small.conf} .
}

# header FILE: the JSON of a safetensors file.
header() {
	head -c $((8 + $(od -An -tu8 -N 8 "$1"))) "$1" | tail -c +9
}

@test "-f safetensors: all tensors in order, f32, with the header as metadata" {
	run -0 --separate-stderr dl-export -f safetensors -o out.safetensors g0.ckpt
	expect_stdout ""
	expect_no_stderr
	run -0 header out.safetensors
	expect_stdout_like '^\{"__metadata__":\{"format":"pt","dl.kind":"checkpoint",.*\},"model.embed_tokens.weight":\{"dtype":"F32","shape":\[300,16\],"data_offsets":\[0,19200\]\},"model.layers.0.input_layernorm.weight":'
	length=$(od -An -tu8 -N 8 out.safetensors)
	[ $((length % 8)) -eq 0 ]
	floats=$(dl-show --json g0.ckpt | sed -n 's/.*"parameters":\([0-9]*\).*/\1/p')
	[ -z "$floats" ] || [ "$(stat -c %s out.safetensors)" -eq $((8 + length + 4 * floats)) ]
}

@test "-f safetensors writes to standard output, and reads standard input" {
	dl-export -f safetensors -o out.safetensors g0.ckpt
	dl-export -f safetensors -o - <g0.ckpt >piped.safetensors
	expect_same out.safetensors piped.safetensors
	dl-export -f safetensors -o again.safetensors - <g0.ckpt
	expect_same out.safetensors again.safetensors
}

@test "--dtype: half of the bytes" {
	dl-export -f safetensors -o f32 g0.ckpt
	for type in bf16 f16; do
		run -0 --separate-stderr dl-export -f safetensors --dtype "$type" -o "$type" g0.ckpt
		data=$(($(stat -c %s "$type") - 8 - $(od -An -tu8 -N 8 "$type")))
		[ "$((2 * data))" -eq "$(($(stat -c %s f32) - 8 - $(od -An -tu8 -N 8 f32)))" ]
	done
}

@test "what does not go together is status 2, one line, and no file" {
	run -2 --separate-stderr dl-export g0.ckpt
	expect_stderr_line '^dl-export: say which format and where: -f FORMAT -o OUT$'
	run -2 --separate-stderr dl-export -f onnx -o out g0.ckpt
	expect_stderr_line "^dl-export: option --format: 'onnx' is not gguf, hf or safetensors$"
	run -2 --separate-stderr dl-export -f safetensors --dtype q3 -o out g0.ckpt
	expect_stderr_line "^dl-export: option --dtype: 'q3' is not f32, bf16 or f16$"
	run -2 --separate-stderr dl-export -f safetensors -o out g0.ckpt g0.ckpt
	expect_stderr_line "^dl-export: one file to export, not 2$"
	expect_no_file out
}

@test "the output is not the input, whatever it is called" {
	cp g0.ckpt own.ckpt
	ln own.ckpt hard.ckpt
	ln -s own.ckpt soft.ckpt
	for name in own.ckpt ./own.ckpt hard.ckpt soft.ckpt; do
		run -2 --separate-stderr dl-export -f safetensors -o "$name" own.ckpt
		expect_stderr_line "^dl-export: $name: is the input, which the output would replace$"
	done
	run -2 --separate-stderr sh -c 'dl-export -f safetensors -o - own.ckpt 1<>own.ckpt'
	expect_same g0.ckpt own.ckpt
}

@test "an input that is damaged, cut short or a stranger's: status 3, and no file" {
	cp g0.ckpt bad.ckpt
	chmod u+w bad.ckpt
	flip_bit bad.ckpt $((8 * $(stat -c %s bad.ckpt) / 2))
	run -3 --separate-stderr dl-export -f safetensors -o out bad.ckpt
	expect_stderr_line '^dl-export: bad.ckpt: frame [0-9]+: '
	head -c -1 g0.ckpt >cut.ckpt
	run -3 --separate-stderr dl-export -f safetensors -o out cut.ckpt
	expect_stderr_line '^dl-export: cut.ckpt: '
	new_home
	run -3 --separate-stderr dl-export -f safetensors -o out g0.ckpt
	expect_stderr_line '^dl-export: g0.ckpt: '
	expect_no_file out
	expect_no_temporary
}

@test "a full disk: status 1, and no file" {
	run -1 --separate-stderr sh -c 'dl-export -f safetensors -o - g0.ckpt >/dev/full'
	expect_stderr_line '^dl-export: standard output: write: No space left on device$'
	need_small_disk
	cp g0.ckpt big.ckpt
	run -1 --separate-stderr small_disk 16k sh -c 'dl-export -f safetensors -o out "$1"; s=$?; ls -A; exit $s' \
		sh "$PWD/big.ckpt"
	expect_stdout ""
	expect_stderr_line '^dl-export: out: write: No space left on device$'
}

# ---- directories for transformers ----

# poison FILE ELEMENT BYTES: a safetensors file of dl-export with other bytes at an element (f32) of its data,
# sealed again.
poison() {
	dl-export -f safetensors -o plain.st g0.ckpt
	printf '%b' "$3" | dd of=plain.st bs=1 seek=$((8 + $(od -An -tu8 -N 8 plain.st) + 4 * $2)) conv=notrunc status=none
	dl-import -f safetensors -o "$1" plain.st
}

@test "-f hf: config.json and one file of weights, in which a tied head is stored once" {
	run -0 --separate-stderr dl-export -f hf -o out g0.ckpt
	expect_stdout ""
	expect_no_stderr
	[ "$(ls -A out)" = "config.json
model.safetensors" ]
	run -0 cat out/config.json
	for line in '"LlamaForCausalLM"' '"model_type": "llama"' '"vocab_size": 300' '"hidden_size": 16' \
		'"num_hidden_layers": 2' '"num_attention_heads": 4' '"num_key_value_heads": 2' '"head_dim": 4' \
		'"intermediate_size": 32' '"max_position_embeddings": 32' '"tie_word_embeddings": true' \
		'"rope_theta": 10000.0' '"rms_norm_eps": 1e-05' '"hidden_act": "silu"' '"torch_dtype": "float32"' \
		'"bos_token_id": null'; do
		expect_stdout_like "$line"
	done
	run -0 header out/model.safetensors
	expect_stdout_like '^\{"__metadata__":\{"format":"pt"\},"model.embed_tokens.weight":\{'
	[[ $output != *lm_head* ]]
	{ cat small.conf; echo 'tied no'; } | dl-init -c - >untied.ckpt
	dl-export -f hf -o untied untied.ckpt
	run -0 header untied/model.safetensors
	expect_stdout_like '"lm_head.weight":\{"dtype":"F32","shape":\[300,16\]'
}

@test "-f hf: a mixture of experts is a Mixtral" {
	dl-export -f hf --dtype bf16 -o out moe.ckpt
	run -0 cat out/config.json
	for line in '"MixtralForCausalLM"' '"model_type": "mixtral"' '"num_local_experts": 4' '"num_experts_per_tok": 2' \
		'"router_aux_loss_coef": 0.01' '"sliding_window": null' '"torch_dtype": "bfloat16"'; do
		expect_stdout_like "$line"
	done
	run -0 header out/model.safetensors
	expect_stdout_like '"model.layers.1.block_sparse_moe.experts.3.w2.weight":\{"dtype":"BF16","shape":\[16,32\]'
}

@test "-f hf: the directory is new or empty, and no pipe" {
	mkdir empty full
	touch full/x
	dl-export -f hf -o empty/ g0.ckpt
	[ -s empty/config.json ]
	for name in full empty small.conf; do
		run -1 --separate-stderr dl-export -f hf -o $name g0.ckpt
		expect_stderr_line "^dl-export: $name: is there already: choose another name, or remove it$"
	done
	[ "$(ls -A full)" = x ]
	run -2 --separate-stderr dl-export -f hf -o - g0.ckpt
	expect_stderr_line '^dl-export: option --output: -f hf makes a directory$'
	run -1 --separate-stderr dl-export -f hf -o nowhere/out g0.ckpt
	expect_stderr_line '^dl-export: nowhere/out: No such file or directory$'
	expect_no_temporary
}

@test "-f hf: an input that is damaged at its end leaves nothing" {
	head -c -1 g0.ckpt >cut.ckpt
	run -3 --separate-stderr dl-export -f hf -o out cut.ckpt
	expect_stderr_line '^dl-export: cut.ckpt: '
	expect_no_file out
	expect_no_temporary
	run -3 --separate-stderr sh -c 'head -c -1 g0.ckpt | dl-export -f hf -o out'
	expect_no_file out
	expect_no_temporary
}

@test "-f hf: several files, none larger than asked for unless one tensor is" {
	dl-init -c tiny -o tiny.ckpt
	dl-export -f hf --shard-size 1 -o out tiny.ckpt
	set -- out/*.safetensors
	[ $# -eq 4 ]
	for file in out/*.safetensors; do
		[ "$(stat -c %s "$file")" -lt 1010000 ]
	done
	grep -q '"total_size": 3543552' out/model.safetensors.index.json
	[ "$(grep -c '": "model-0000[1-4]-of-00004.safetensors"' out/model.safetensors.index.json)" -eq 38 ]
	{ echo 'vocab 20000'; grep -v vocab small.conf; } | dl-init -c - >wide.ckpt
	dl-export -f hf --shard-size 1 -o wide wide.ckpt
	set -- wide/*.safetensors
	[ $# -eq 2 ]
}

@test "--tokenizer: what belongs to it travels along, with the ids of special tokens" {
	mkdir tok
	echo '{"a": 1}' >tok/tokenizer.json
	cp "$repo/tests/fuzz/seeds/vocab/bpe" tok/tokenizer.model
	echo '{"bos_token_id": 1, "eos_token_id": [2, 5], "hidden_size": 9}' >tok/config.json
	echo no >tok/model.safetensors
	echo no >tok/README.md
	dl-export -f hf --tokenizer tok -o out g0.ckpt
	[ "$(ls -A out)" = "config.json
model.safetensors
tokenizer.json
tokenizer.model" ]
	expect_same tok/tokenizer.json out/tokenizer.json
	grep -q '"eos_token_id": \[2, 5\],' out/config.json
	grep -q '"hidden_size": 16,' out/config.json
	dl-export -f hf --tokenizer tok/tokenizer.model -o only g0.ckpt
	expect_same tok/tokenizer.model only/tokenizer.model
	mkdir none
	run -1 --separate-stderr dl-export -f hf --tokenizer none -o new g0.ckpt
	expect_stderr_line '^dl-export: none: there are no files of a tokenizer in it$'
	run -1 --separate-stderr dl-export -f hf --tokenizer nowhere -o new g0.ckpt
	expect_stderr_line '^dl-export: nowhere: No such file or directory$'
	mkdir none/tokenizer.json
	run -1 --separate-stderr dl-export -f hf --tokenizer none -o new g0.ckpt
	expect_no_file new
	expect_no_temporary
}

@test "--tokenizer: files that can't belong to one are refused by name" {
	refused() { # WHAT PATH
		run -1 --separate-stderr in_time dl-export -f hf --tokenizer "$2" -o new g0.ckpt
		expect_stderr_line "^dl-export: $1"
		expect_no_file new
		expect_no_temporary
	}
	mkdir tok
	ln -s /dev/zero tok/tokenizer.json
	refused 'tok/tokenizer\.json: not a regular file$' tok
	refused 'tok/tokenizer\.json: not a regular file$' tok/tokenizer.json
	rm tok/tokenizer.json
	truncate -s 300M tok/tokenizer.json
	refused 'tok/tokenizer\.json: 314572800 bytes, where at most 268435456 make sense$' tok
	echo '{}' >tok/tokenizer.json
	printf '{\n' >tok/config.json
	refused 'tok/config\.json: not JSON as it should be: line 2' tok
	: >tok/config.json
	refused 'tok/config\.json: not JSON ' tok
	ln -sf /dev/zero tok/config.json
	refused 'tok/config\.json: not a regular file$' tok
	refused 'g0\.ckpt: not a SentencePiece model' g0.ckpt
	refused 'tok/tokenizer\.json: not a SentencePiece model' tok/tokenizer.json
}

@test "one that is asked to stop while it copies a tokenizer leaves nothing" {
	command -v strace >/dev/null || skip "no strace"
	need_plain_build
	mkdir tok
	truncate -s 200M tok/tokenizer.json
	run -143 strace -f -o /dev/null -e trace=write -e inject=write:signal=TERM:when=200 \
		dl-export -f hf --tokenizer tok -o new g0.ckpt
	expect_no_file new
	expect_no_temporary
}

@test "--check: the same bit for bit, or how far rounding has moved it" {
	run -0 --separate-stderr dl-export -v -f hf --check -o a g0.ckpt
	expect_stderr_like 'checked: on tokens at random losses of ([0-9.]+) here and \1 there, logits up to 0 of the largest apart'
	run -0 --separate-stderr dl-export -v -f hf --check --dtype bf16 -o b moe.ckpt
	expect_stderr_like 'checked: on tokens at random losses of [0-9.]+ here and [0-9.]+ there, logits up to [0-9.e-]+ of the largest apart'
	run -2 --separate-stderr sh -c 'cat g0.ckpt | dl-export -f hf --check -o c'
	expect_stderr_line '^dl-export: option --check: the checkpoint must come from a file, to be read again$'
	run -2 --separate-stderr dl-export -f safetensors --check -o c g0.ckpt
	expect_no_file c
}

@test "a value too large for the type, or that is no number, is named" {
	poison large.ckpt 17 '\00\0240\0214\0107'
	run -1 --separate-stderr dl-export -f hf --dtype f16 -o out large.ckpt
	expect_stderr_line "^dl-export: large.ckpt: tensor 'model.embed_tokens.weight': element 17 is 72000, too large for f16$"
	run -1 --separate-stderr dl-export -f safetensors --dtype f16 -o out large.ckpt
	expect_stderr_line "^dl-export: large.ckpt: tensor 'model.embed_tokens.weight': element 17 is 72000, too large for f16$"
	dl-export -f hf --dtype bf16 -o fits large.ckpt
	expect_no_file out
	run -1 --separate-stderr poison nan.ckpt 3 '\00\00\0300\0177'
	expect_stderr_line "^dl-import: plain.st: tensor 'model.embed_tokens.weight': 1 of 4800 values are not finite, the first is element 3, nan$"
}

@test "-f hf on a full disk leaves nothing" {
	need_small_disk
	cp g0.ckpt big.ckpt
	run -1 --separate-stderr small_disk 32k sh -c 'dl-export -f hf -o out "$1"; s=$?; ls -A; exit $s' \
		sh "$PWD/big.ckpt"
	expect_stdout ""
	expect_stderr_line '^dl-export: out: .*No space left on device$'
}

@test "an export that is told to stop leaves nothing" {
	mkfifo slow
	dl-export -f hf -o out slow 2>words 3>&- &
	exec 4>slow
	head -c 2000 g0.ckpt >&4
	kill -TERM $!
	cat g0.ckpt >&4 2>/dev/null || :
	exec 4>&-
	local status=0
	wait $! || status=$?
	[ "$status" -ne 0 ]
	expect_no_file out
	expect_no_temporary
}
