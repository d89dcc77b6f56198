# dl-export -f gguf: a checkpoint for llama.cpp. llama.bats asks llama.cpp itself.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 2' 'heads 4' 'kv_heads 2' 'ff 32' 'context 32' 'vocab 300' >small.conf
	dl-init -c small.conf --seed 3 >g0.ckpt
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{g0.ckpt,small.conf} .
}

gguf_conf() {
	printf '%s\n' 'd_model 16' 'layers 2' 'heads 4' 'kv_heads 2' 'head_dim 6' 'ff 32' 'context 32' "$@"
}

@test "-f gguf: keys and tensors as llama.cpp wants them" {
	gguf_conf 'tied no' 'rope_theta 500' >bytes.conf
	dl-init -c bytes.conf --label kitten >bytes.ckpt
	run -0 --separate-stderr dl-export -f gguf -o out.gguf bytes.ckpt
	expect_stdout ""
	expect_no_stderr
	run -0 dl-gguf out.gguf
	expect_stdout "key general.architecture llama
key general.type model
key general.name kitten
key general.alignment 32
key general.file_type 0
key llama.vocab_size 256
key llama.context_length 32
key llama.embedding_length 16
key llama.block_count 2
key llama.feed_forward_length 32
key llama.attention.head_count 4
key llama.attention.head_count_kv 2
key llama.attention.key_length 6
key llama.attention.value_length 6
key llama.rope.dimension_count 6
key llama.rope.freq_base 500
key llama.attention.layer_norm_rms_epsilon 1e-05
key tokenizer.ggml.model llama
key tokenizer.ggml.pre default
key tokenizer.ggml.tokens [256]
key tokenizer.ggml.scores [256]
key tokenizer.ggml.token_type [256]
key tokenizer.ggml.bos_token_id 0
key tokenizer.ggml.eos_token_id 0
key tokenizer.ggml.unknown_token_id 0
key tokenizer.ggml.add_bos_token false
key tokenizer.ggml.add_eos_token false
key tokenizer.ggml.add_space_prefix false
tensor token_embd.weight f32 256x16
$(for n in 0 1; do printf "tensor blk.$n.%s\n" 'attn_norm.weight f32 16' 'attn_q.weight f32 24x16' \
	'attn_k.weight f32 12x16' 'attn_v.weight f32 12x16' 'attn_output.weight f32 16x24' 'ffn_norm.weight f32 16' \
	'ffn_gate.weight f32 32x16' 'ffn_up.weight f32 32x16' 'ffn_down.weight f32 16x32'; done)
tensor output_norm.weight f32 16
tensor output.weight f32 256x16"
}

# values NAME: of a tensor of bytes.ckpt, WIDTH a line.
values() {
	dl-dump bytes.ckpt | sed -n "s/^$1 //p" | tr ' ' '\n' |
		awk -v n="$2" '{ printf "%s%s", $0, NR % n ? " " : "\n" }'
}

@test "-f gguf: q and k are paired row by row, the rest stays in order" {
	gguf_conf >bytes.conf
	dl-init -c bytes.conf --seed 4 >bytes.ckpt
	dl-export -f gguf -o out.gguf bytes.ckpt
	for pair in v_proj:attn_v q_proj:attn_q k_proj:attn_k; do
		values "model.layers.1.self_attn.${pair%:*}.weight" 16 >ours
		dl-gguf out.gguf "blk.1.${pair#*:}.weight" >theirs
		[ "$pair" = v_proj:attn_v ] || { # rows 0 1 2 3 4 5 of a head become 0 3 1 4 2 5
			awk '{ row[NR - 1] = $0 } END { for (h = 0; h < NR; h += 6) for (j = 0; j < 3; j++) {
				print row[h + j]; print row[h + j + 3] } }' ours >paired
			mv paired ours
		}
		expect_same ours theirs
	done
	values model.layers.0.mlp.down_proj.weight 32 >ours
	dl-gguf out.gguf blk.0.ffn_down.weight >theirs
	expect_same ours theirs
}

@test "-f gguf: the experts of a layer are one tensor, the router is f32" {
	gguf_conf 'experts 3' 'experts_per_token 2' >bytes.conf
	dl-init -c bytes.conf --seed 4 >bytes.ckpt
	dl-export -f gguf -o out.gguf bytes.ckpt
	run -0 dl-gguf out.gguf
	expect_stdout_like 'key llama.expert_count 3
key llama.expert_used_count 2
'
	expect_stdout_like 'tensor blk.1.ffn_gate_inp.weight f32 3x16
tensor blk.1.ffn_gate_exps.weight f32 3x32x16
tensor blk.1.ffn_up_exps.weight f32 3x32x16
tensor blk.1.ffn_down_exps.weight f32 3x16x32
'
	for pair in w1:gate w3:up w2:down; do
		width=16
		[ "$pair" != w2:down ] || width=32
		for e in 0 1 2; do
			values "model.layers.1.block_sparse_moe.experts.$e.${pair%:*}.weight" "$width"
		done >ours
		dl-gguf out.gguf "blk.1.ffn_${pair#*:}_exps.weight" >theirs
		expect_same ours theirs
	done
	dl-export -f gguf --dtype f16 -o half.gguf bytes.ckpt
	run -0 dl-gguf half.gguf
	expect_stdout_like 'tensor blk.1.ffn_gate_inp.weight f32 3x16
tensor blk.1.ffn_gate_exps.weight f16 3x32x16
'
}

@test "-f gguf --dtype: norms stay f32, rows that are no blocks become f16" {
	gguf_conf >bytes.conf
	dl-init -c bytes.conf >bytes.ckpt
	for type in f16 bf16 q8_0; do
		run -0 --separate-stderr dl-export -v -f gguf --dtype $type -o out.gguf bytes.ckpt
		expect_stderr_line "^dl-export: out.gguf: 20 tensors, $type$"
		run -0 dl-gguf out.gguf
		expect_stdout_like "tensor blk.0.attn_norm.weight f32 16"
		expect_stdout_like "tensor blk.0.ffn_down.weight $type 16x32"
		[ $type != q8_0 ] || expect_stdout_like "tensor blk.0.ffn_up.weight f16 32x16"
		[ $type != q8_0 ] || expect_stdout_like "key general.quantization_version 2"
	done
}

@test "-f gguf through pipes is the same file" {
	gguf_conf >bytes.conf
	dl-init -c bytes.conf >bytes.ckpt
	dl-export -f gguf -o out.gguf bytes.ckpt
	# shellcheck disable=SC2002 # a pipe on purpose
	cat bytes.ckpt | dl-export -f gguf -o - | cat >piped.gguf
	expect_same out.gguf piped.gguf
	expect_no_temporary
}

@test "-f gguf: a model whose ids nobody explains is exported with a warning" {
	run -0 --separate-stderr dl-export -f gguf -o out.gguf g0.ckpt
	expect_stderr_line '^dl-export: without --tokenizer ids stand for themselves: '
	run -0 dl-gguf out.gguf
	expect_stdout_like 'key tokenizer.ggml.tokens \[300\]'
	run -0 --separate-stderr dl-export -q -f gguf -o out.gguf g0.ckpt
	expect_no_stderr
}

@test "-f gguf: a vocabulary that is not the model's, or no vocabulary at all: status 1, and no file" {
	run -1 --separate-stderr dl-export -f gguf --tokenizer small.conf -o out g0.ckpt
	expect_stderr_line '^dl-export: small.conf: not a SentencePiece model'
	run -1 --separate-stderr dl-export -f gguf --tokenizer . -o out g0.ckpt
	expect_stderr_line '^dl-export: ./tokenizer.model: No such file or directory$'
	seed=$repo/tests/fuzz/seeds/vocab # of 12 and 9 pieces
	{ echo 'vocab 8'; gguf_conf; } >few.conf
	dl-init -c few.conf >few.ckpt
	run -1 --separate-stderr dl-export -f gguf --tokenizer "$seed/bpe" -o out few.ckpt
	expect_stderr_line "^dl-export: $seed/bpe: 12 pieces, and the model has 8$"
	dl-init -c <(gguf_conf) --tokenizer "$seed/bpe" >bpe.ckpt
	sed 's/b/c/g' "$seed/bpe" >other
	run -1 --separate-stderr dl-export -f gguf --tokenizer other -o out bpe.ckpt
	expect_stderr_line "^dl-export: other: not the vocabulary that the model was made for: [0-9a-f]{16}, and the model's is [0-9a-f]{16}$"
	expect_no_file out
	dl-export -q -f gguf --no-bos --tokenizer "$seed/bpe" -o out bpe.ckpt
	run -0 dl-gguf out
	expect_stdout_like 'key tokenizer.ggml.add_bos_token false'
}

@test "-f gguf: a vocabulary in which bytes are missing comes with a warning" {
	cp "$repo/tests/fuzz/seeds/vocab/bpe" none
	{ cat none; printf '\n\017\n\006<0x41>\025\0\0\0\0\030\006'; } >one
	for name in none one; do
		dl-init -c <(gguf_conf) --tokenizer $name >bpe.ckpt
		run -0 --separate-stderr dl-export -f gguf --tokenizer $name -o out bpe.ckpt
		expect_stderr_line "^dl-export: $name: has no pieces for all bytes \(spm_train --byte_fallback\): "
	done
	run -0 dl-gguf out
	expect_stdout_like 'key tokenizer.ggml.tokens \[13\]'
}

@test "-f gguf: the output is not the vocabulary" {
	mkdir theirs
	cp "$repo/tests/fuzz/seeds/vocab/bpe" theirs/tokenizer.model
	dl-init -c <(gguf_conf) --tokenizer theirs >bpe.ckpt
	ln -s theirs/tokenizer.model soft
	ln theirs/tokenizer.model hard
	for name in theirs/tokenizer.model soft hard; do
		for from in theirs theirs/tokenizer.model; do
			run -2 --separate-stderr dl-export -f gguf --tokenizer $from -o $name bpe.ckpt
			expect_stderr_line "^dl-export: $name: is an input, which the output would replace$"
		done
	done
	expect_same "$repo/tests/fuzz/seeds/vocab/bpe" theirs/tokenizer.model
}

# forge VALUES: a checkpoint whose embedding (4x8) begins with these.
forge() {
	printf '%s\n' 'd_model 8' 'layers 1' 'heads 2' 'ff 32' 'vocab 4' >forged.conf
	dl-init -c forged.conf >honest.ckpt
	# shellcheck disable=SC2046 # words on purpose
	dl-forge checkpoint $(dl-dump honest.ckpt | awk '$1 != "kind" && $1 !~ /weight$/ { print $1 "=" $2 }') \
		"model.embed_tokens.weight:4x8:$1" model.layers.0.input_layernorm.weight:8:1 \
		model.layers.0.self_attn.{q,k,v,o}_proj.weight:8x8:1 model.layers.0.post_attention_layernorm.weight:8:1 \
		model.layers.0.mlp.{gate,up}_proj.weight:32x8:1 model.layers.0.mlp.down_proj.weight:8x32:1 \
		model.norm.weight:8:1 >forged.ckpt
}

@test "-f gguf: values that are not finite are counted and named, and those too large for f16" {
	forge 1,2,nan,4,inf,6
	run -1 --separate-stderr dl-export -f gguf -o out forged.ckpt
	expect_stderr_line "^dl-export: forged.ckpt: tensor 'model.embed_tokens.weight': 2 of its values are not finite, the first is element 2$"
	forge 1,2,3,4,5,6,7,8,9,70000,1
	run -1 --separate-stderr dl-export -f gguf --dtype f16 -o out forged.ckpt
	expect_stderr_line "^dl-export: forged.ckpt: tensor 'token_embd.weight': row 0: element 9 is 70000, more than f16 can hold$"
	expect_no_file out
	expect_no_temporary
	dl-export -f gguf -o out forged.ckpt
	[ "$(dl-gguf out token_embd.weight | sed -n 2p)" = "9 70000 1 1 1 1 1 1" ]
}

@test "-f gguf: options that mean nothing here are refused" {
	run -2 --separate-stderr dl-export -f gguf --check -o out g0.ckpt
	expect_stderr_line '^dl-export: option --check: '
	run -2 --separate-stderr dl-export -f gguf --no-bos -o out g0.ckpt
	expect_stderr_line '^dl-export: option --no-bos goes with --tokenizer$'
	run -2 --separate-stderr dl-export -f safetensors --no-bos -o out g0.ckpt
	expect_stderr_line '^dl-export: option --no-bos: '
	run -2 --separate-stderr dl-export -f gguf --dtype q4 -o out g0.ckpt
	expect_stderr_line "^dl-export: option --dtype: type 'q4': f32, f16, bf16 or q8_0$"
	expect_no_file out
}

@test "-f gguf: what is no checkpoint, cut short, or meets a full disk leaves no file" {
	dl-export -q -f gguf -o out g0.ckpt
	rm out
	head -c -1 g0.ckpt >cut.ckpt
	run -3 --separate-stderr dl-export -q -f gguf -o out cut.ckpt
	expect_stderr_line '^dl-export: cut.ckpt: '
	corpus 2000 | dl-data -o text
	run -1 --separate-stderr dl-export -f gguf -o out text.tok
	expect_stderr_line '^dl-export: text.tok: is a shard, not a checkpoint$'
	expect_no_file out
	expect_no_temporary
	need_small_disk
	run -1 --separate-stderr small_disk 16k sh -c 'dl-export -q -f gguf -o out "$1"; s=$?; ls -A; exit $s' \
		sh "$PWD/g0.ckpt"
	expect_stdout ""
	expect_stderr_line '^dl-export: out: write: No space left on device$'
	run -1 --separate-stderr small_disk 16k sh -c 'TMPDIR=$PWD dl-export -q -f gguf -o - "$1"; s=$?; ls -A; exit $s' \
		sh "$PWD/g0.ckpt"
	expect_stdout ""
	expect_stderr_line '^dl-export: temporary file \(TMPDIR\): write: No space left on device$'
}
