# dl-import: what others made becomes a checkpoint, or one clear line says why not.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 2' 'heads 4' 'kv_heads 2' 'ff 32' 'context 32' 'vocab 300' >dense.conf
	{ cat dense.conf; printf '%s\n' 'head_dim 12' 'tied no' 'rope_theta 500000' 'norm_eps 1e-6'; } >wide.conf
	{ cat dense.conf; printf '%s\n' 'experts 4' 'experts_per_token 2' 'router_aux_loss_coef 0.02'; } >moe.conf
	for name in dense wide moe; do
		dl-init -c $name.conf --seed 3 >$name.ckpt
		dl-export -f hf -o $name.hf $name.ckpt
	done
	seq 0 299 | dl-data --ids --vocab 300 -o ids
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/*.{ckpt,conf,tok} .
	cp -r "$BATS_FILE_TMPDIR"/*.hf .
}

# le64 N: eight bytes, little-endian.
le64() {
	local n=$1 i
	for ((i = 0; i < 8; i++)); do
		printf '%b' "\\x$(printf %02x $((n >> 8 * i & 255)))"
	done
}
header_length() {
	od -An -tu8 -N 8 "$1" | tr -d ' '
}
header() {
	head -c $((8 + $(header_length "$1"))) "$1" | tail -c +9
}
# edit FILE SED-SCRIPT: of the header of a safetensors file; its length follows.
edit() {
	local data=$((9 + $(header_length "$1")))
	header "$1" | sed -E "$2" | tr -d '\n' >edited.json
	{
		le64 "$(stat -c %s edited.json)"
		cat edited.json
		tail -c +$data "$1"
	} >edited.st
	mv edited.st "$1"
}
# poke FILE OFFSET BYTES: overwrites in place, BYTES as for printf %b.
poke() {
	printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# refused DIR PATTERN: status 1, one line that matches, and nothing written.
refused() {
	run -1 --separate-stderr dl-import -f hf -o out.ckpt "$1"
	expect_stdout ""
	expect_stderr_line "^dl-import: $2"
	expect_no_file out.ckpt
	expect_no_temporary
	run -1 --separate-stderr sh -c 'dl-import -f hf "$1" >out; s=$?; dl-show --verify out >/dev/null 2>&1 && s=0; exit $s' sh "$1"
	rm out
}

# ---- round trips ----

# about FILE: model, configuration, and loss on the shard.
about() {
	dl-show "$1" | grep -E '^  (model |conf\.)'
	dl-eval -d ids.tok "$1"
}

@test "a checkpoint exported and imported again has the same values and configuration" {
	for name in dense wide moe; do
		dl-import -f hf $name.hf >again.ckpt
		dl-show --diff $name.ckpt again.ckpt >/dev/null
		[ "$(about $name.ckpt)" = "$(about again.ckpt)" ]
	done
}

@test "a directory imported and exported again has the same bytes, in f32, bf16 and f16" {
	for name in dense wide moe; do
		for type in f32 bf16 f16; do
			dl-export -f hf --dtype $type -o a $name.ckpt
			dl-import -f hf a >a.ckpt
			options=
			[ $type != f16 ] || options="--dtype f16"
			# shellcheck disable=SC2086 # two words
			dl-export -f hf $options -o b a.ckpt
			expect_same a/model.safetensors b/model.safetensors
			expect_same a/config.json b/config.json
			rm -r a b a.ckpt
		done
	done
}

@test "bf16 stays bf16 in the checkpoint, f16 becomes f32, and no value changes" {
	dl-export -f hf --dtype bf16 -o b.hf dense.ckpt
	dl-import -f hf b.hf >b.ckpt
	[ "$(dl-show b.ckpt | grep -c ' bf16 ')" -eq "$(dl-show dense.ckpt | grep -c ' f32 ')" ]
	dl-export -f hf --dtype f16 -o h.hf dense.ckpt
	dl-import -f hf h.hf >h.ckpt
	[ "$(dl-show h.ckpt | grep -c ' f32 ')" -eq "$(dl-show dense.ckpt | grep -c ' f32 ')" ]
	dl-export -f safetensors --dtype f16 -o h1 dense.ckpt
	dl-export -f safetensors --dtype f16 -o h2 h.ckpt
	tail -c 5000 h1 >h1.end
	tail -c 5000 h2 >h2.end
	expect_same h1.end h2.end
}

@test "the same directory, options and key give the same bytes; another label another run" {
	dl-import -f hf dense.hf >a.ckpt
	dl-import -f hf -o b.ckpt dense.hf
	expect_same a.ckpt b.ckpt
	dl-import -f hf --label x dense.hf >c.ckpt
	[ "$(dl-show c.ckpt | grep '^  run')" != "$(dl-show a.ckpt | grep '^  run')" ]
	dl-init -c dense.conf --seed 4 >other.ckpt
	dl-export -f hf -o other.hf other.ckpt
	dl-import -f hf other.hf >d.ckpt
	[ "$(dl-show d.ckpt | grep '^  run')" != "$(dl-show a.ckpt | grep '^  run')" ]
	[ "$(dl-show d.ckpt | grep '^  model  ')" = "$(dl-show a.ckpt | grep '^  model  ')" ]
}

@test "--check runs the model from both sides" {
	run -0 --separate-stderr dl-import -f hf -v --check -o a.ckpt moe.hf
	expect_stderr_like 'dl-import: checked: a loss of [0-9.]+ on tokens at random on both sides, and the same logits'
	run -2 --separate-stderr dl-import -f hf --check moe.hf
	expect_stderr_line '^dl-import: option --check: the checkpoint must go to a file \(-o\) to be read again$'
	expect_stdout ""
}

@test "-c: how it will be trained, and nothing of the model" {
	printf '%s\n' 'lr 1e-4' 'batch 3' >train.conf
	dl-import -f hf -c train.conf dense.hf >a.ckpt
	run -0 dl-show a.ckpt
	expect_stdout_like 'conf.lr +0.0001'
	expect_stdout_like 'conf.batch +3'
	echo 'd_model 16' >train.conf
	run -2 --separate-stderr dl-import -f hf -c train.conf dense.hf
	expect_stderr_line "^dl-import: train.conf: line 1: unknown key 'd_model'"
}

# ---- several files ----

sharded() {
	dl-init -c tiny -o tiny.ckpt
	dl-export -f hf --shard-size 1 -o tiny.hf tiny.ckpt
}

@test "a set of several files with its index" {
	sharded
	[ "$(ls tiny.hf)" = "config.json
model-00001-of-00004.safetensors
model-00002-of-00004.safetensors
model-00003-of-00004.safetensors
model-00004-of-00004.safetensors
model.safetensors.index.json" ]
	dl-import -f hf tiny.hf >a.ckpt
	dl-show --diff tiny.ckpt a.ckpt >/dev/null
}

@test "a file of a set that is missing, or has too much or too little, is named" {
	sharded
	cp -r tiny.hf bad
	rm bad/model-00003-of-00004.safetensors
	refused bad 'bad/model-00003-of-00004.safetensors: No such file or directory$'
	cp tiny.hf/model-00002-of-00004.safetensors bad/model-00003-of-00004.safetensors
	refused bad "bad/model-00003-of-00004.safetensors: tensor '.*' is (missing, which the index puts there|not in the index, or in another file)$"
	rm bad/model.safetensors.index.json
	refused bad 'bad: neither model.safetensors nor model.safetensors.index.json is there$'
	cp -r tiny.hf worse
	sed -i '/model.norm.weight/d; s/\(00004.safetensors"\),$/\1,/' worse/model.safetensors.index.json
	sed -i 'N;$!P;$!D;s/,\n  }/\n  }/' worse/model.safetensors.index.json
	refused worse "worse/model"
}

@test "an index that names files elsewhere, or a tensor twice, or is no JSON" {
	sharded
	for name in ../other.safetensors /etc/passwd a/b.safetensors .hidden.safetensors -x.safetensors 'a\\nb.safetensors' x.bin; do
		cp -r tiny.hf bad
		sed -i "s|model-00001-of-00004.safetensors|$name|" bad/model.safetensors.index.json
		refused bad 'bad/model.safetensors.index.json: ".*" is not the name of a safetensors file of this directory$'
		rm -r bad
	done
	cp -r tiny.hf bad
	sed -i 's/"model.norm.weight"/"model.embed_tokens.weight"/' bad/model.safetensors.index.json
	refused bad 'bad/model.safetensors.index.json: not JSON as it should be: .*duplicate object key'
	echo '{"weight_map":{},"weight_map":{"a":"b.safetensors"}}' >bad/model.safetensors.index.json
	refused bad 'bad/model.safetensors.index.json: weight_map is there twice$'
	echo '{"weight_map":{}}' >bad/model.safetensors.index.json
	refused bad 'bad/model.safetensors.index.json: no weight_map, or an empty one$'
	echo '{"weight_map":7}' >bad/model.safetensors.index.json
	refused bad 'bad/model.safetensors.index.json: weight_map is not an object$'
	head -c 100 tiny.hf/model.safetensors.index.json >bad/model.safetensors.index.json
	refused bad 'bad/model.safetensors.index.json: not JSON as it should be'
}

@test "a tensor in two files of a set is named" {
	sharded
	cp tiny.hf/model-00004-of-00004.safetensors tiny.hf/model-00005.safetensors
	sed -i 's|^  }$|,"x": "model-00005.safetensors"&|' tiny.hf/model.safetensors.index.json
	refused tiny.hf 'tiny.hf/model'
}

# ---- config.json against the tensors ----

@test "missing, extra and wrongly shaped tensors are named" {
	file=dense.hf/model.safetensors
	edit $file 's/"model.norm.weight"/"model.other.weight"/'
	refused dense.hf "$file: tensor 'model.norm.weight' is missing$"
	cp -r wide.hf extra
	sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' extra/config.json
	refused extra "extra/model.safetensors: tensor 'lm_head.weight' is not the embedding, to which config.json ties it$"
	cp -r moe.hf less
	sed -i 's/"num_local_experts": 4/"num_local_experts": 3/' less/config.json
	refused less "less/model.safetensors: tensor 'model.layers.0.block_sparse_moe.gate.weight' has shape 4x16, config.json makes it 3x16$"
	cp -r wide.hf layers
	sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' layers/config.json
	refused layers "layers/model.safetensors: tensor 'model.layers.1.input_layernorm.weight' and others: the model that config.json describes has no such thing$"
}

@test "a config.json that contradicts the tensors, a vocabulary larger than the embedding" {
	sed -i 's/"vocab_size": 300/"vocab_size": 320/' wide.hf/config.json
	refused wide.hf "wide.hf/model.safetensors: tensor 'model.embed_tokens.weight' has shape 300x16, config.json makes it 320x16$"
	sed -i 's/"num_key_value_heads": 2/"num_key_value_heads": 4/' dense.hf/config.json
	refused dense.hf "dense.hf/model.safetensors: tensor 'model.layers.0.self_attn.k_proj.weight' has shape 8x16, config.json makes it 16x16$"
}

@test "what the model cannot express is refused by name" {
	for change in 's/"rope_scaling": null/"rope_scaling": {"rope_type": "llama3", "factor": 8.0}/' \
		's/"attention_bias": false/"attention_bias": true/' 's/"mlp_bias": false/"mlp_bias": true/' \
		's/LlamaForCausalLM/Qwen2ForCausalLM/' 's/"silu"/"gelu"/' \
		's/"use_cache": true/"sliding_window": 16/' 's/"use_cache": true/"partial_rotary_factor": 0.5/'; do
		cp -r dense.hf bad
		sed -i "$change" bad/config.json
		refused bad 'bad/config.json: (rope_scaling|attention_bias|mlp_bias|architectures|hidden_act|sliding_window|partial_rotary_factor) '
		rm -r bad
	done
}

@test "a config.json that is no JSON, deep, cut short or missing" {
	head -c 300 dense.hf/config.json >cut
	mv cut dense.hf/config.json
	refused dense.hf 'dense.hf/config.json: not JSON as it should be: line '
	{ head -c 10000 /dev/zero | tr '\0' '['; head -c 10000 /dev/zero | tr '\0' ']'; } >dense.hf/config.json
	refused dense.hf 'dense.hf/config.json: not JSON as it should be: .*depth'
	sed -i 's/"vocab_size": 300,/&&/' wide.hf/config.json
	refused wide.hf 'wide.hf/config.json: not JSON as it should be: .*duplicate object key'
	head -c 2000000 /dev/zero | tr '\0' ' ' >dense.hf/config.json
	refused dense.hf 'dense.hf/config.json: '
	rm dense.hf/config.json
	refused dense.hf 'dense.hf/config.json: No such file or directory$'
	refused dense.ckpt 'dense.ckpt/config.json: Not a directory$'
	refused nowhere 'nowhere/config.json: No such file or directory$'
}

@test "integers are no weights" {
	edit dense.hf/model.safetensors 's/("model.norm.weight":\{"dtype":")F32/\1U32/'
	refused dense.hf "dense.hf/model.safetensors: tensor 'model.norm.weight' is of type U32, not F32, BF16 or F16$"
}

@test "weights that are not finite are named, with their number" {
	file=dense.hf/model.safetensors
	data=$((8 + $(header_length $file)))
	poke $file $((data + 4 * 17)) '\00\00\0300\0177'
	poke $file $((data + 4 * 99)) '\00\00\0200\0377'
	refused dense.hf "$file: tensor 'model.embed_tokens.weight': 2 of 4800 values are not finite, the first is element 17, -?nan$"
}

@test "what old or careless files have besides: inv_freq, a tied head that is stored" {
	# One more tensor at the end of the file.
	add() { # FILE NAME SHAPE DATAFILE
		local length size at end
		length=$(header_length "$1")
		size=$(stat -c %s "$1")
		at=$((size - 8 - length))
		end=$((at + $(stat -c %s "$4")))
		cat "$4" >>"$1"
		edit "$1" "s/\}( *)\$/,\"$2\":{\"dtype\":\"F32\",\"shape\":$3,\"data_offsets\":[$at,$end]}}/"
	}
	file=dense.hf/model.safetensors
	head -c 8 /dev/zero >freq
	add $file model.layers.0.self_attn.rotary_emb.inv_freq '[2]' freq
	data=$((9 + $(header_length $file)))
	tail -c +$data $file | head -c $((4 * 300 * 16)) >embedding
	add $file lm_head.weight "[300,16]" embedding
	dl-import -f hf dense.hf >a.ckpt
	dl-show --diff dense.ckpt a.ckpt >/dev/null
	poke $file $(($(stat -c %s $file) - 4)) '\01'
	refused dense.hf "$file: tensor 'lm_head.weight' is not the embedding, to which config.json ties it$"
}

# ---- the file itself ----

@test "header lengths of 0, 2^63, more than the file, and of another byte order" {
	file=dense.hf/model.safetensors
	n=$(header_length $file)
	poke $file 0 '\00\00\00\00\00\00\00\00'
	refused dense.hf "$file: header length is 0: not a safetensors file$"
	poke $file 7 '\0200'
	refused dense.hf "$file: header length 9223372036854775808 is more than the [0-9]+ bytes that follow: cut short, or not a safetensors file$"
	poke $file 0 '\0377\0377\0377\0377\0377\0377\0377\0377'
	refused dense.hf "$file: header length 18446744073709551615 is more than "
	le64 "$(($(stat -c %s $file) - 7))" | dd of=$file conv=notrunc status=none
	refused dense.hf "$file: header length "
	for i in 0 1 2 3 4 5 6 7; do
		poke $file $i "\\0$(printf %o $((n >> 8 * (7 - i) & 255)))"
	done
	refused dense.hf "$file: header length [0-9]+ makes sense in the other byte order only"
}

@test "offsets that overlap, leave holes, lie outside or run backwards; shapes that wrap or are negative" {
	bad() { # SED-SCRIPT PATTERN
		cp -r dense.hf bad
		edit bad/model.safetensors "$1"
		refused bad "bad/model.safetensors: header: $2"
		rm -r bad
	}
	norm='("model.norm.weight":\{"dtype":"F32","shape":)\[16\],"data_offsets":\[([0-9]*),([0-9]*)\]'
	bad "s/$norm/\1[16],\"data_offsets\":[0,64]/" "tensors '.*' and '.*' overlap$"
	bad "s/$norm/\1[16],\"data_offsets\":[1\2,1\3]/" "[0-9]+ bytes before tensor 'model.norm.weight' belong to none$"
	bad "s/$norm/\1[16],\"data_offsets\":[\3,\2]/" "tensor 'model.norm.weight': data_offsets [0-9]+ to [0-9]+ run backwards$"
	bad "s/$norm/\1[32],\"data_offsets\":[\2,\3]/" "tensor 'model.norm.weight': data_offsets give it 64 bytes, its shape 128$"
	bad "s/$norm/\1[-16],\"data_offsets\":[\2,\3]/" "tensor 'model.norm.weight': dimension 0 of its shape is no size$"
	bad "s/$norm/\1[4611686018427387904,4],\"data_offsets\":[\2,\3]/" "tensor 'model.norm.weight': more than 2\^48 elements$"
	bad "s/$norm/\1[9223372036854775808],\"data_offsets\":[\2,\3]/" "not JSON as it should be"
	head -c -1 wide.hf/model.safetensors >cut
	mv cut wide.hf/model.safetensors
	refused wide.hf "wide.hf/model.safetensors: header: tensor 'lm_head.weight' ends 1 bytes behind the end of the file$"
	echo x >>moe.hf/model.safetensors
	refused moe.hf "moe.hf/model.safetensors: header: 2 bytes at the end belong to no tensor$|moe.hf/model.safetensors: header: 2"
}

@test "names that are given twice, or are none" {
	bad() { # NAME PATTERN
		cp -r dense.hf bad
		edit bad/model.safetensors "s|model.norm.weight|$1|"
		refused bad "bad/model.safetensors: header: $2"
		rm -r bad
	}
	bad model.embed_tokens.weight "tensor 'model.embed_tokens.weight' occurs twice$"
	bad ../../etc/passwd "'../../etc/passwd' is not a tensor name$"
	bad a..b "'a..b' is not a tensor name$"
	bad a/b "'a/b' is not a tensor name$"
	bad 'a\\\\nb' "'a\\\\nb' is not a tensor name$"
	bad '' "'' is not a tensor name$"
}

@test "a header that is no JSON, deep, cut short, or has a key twice" {
	bad() { # SED-SCRIPT
		cp -r dense.hf bad
		edit bad/model.safetensors "$1"
		refused bad "bad/model.safetensors: header: not JSON as it should be: byte [0-9]+: "
		rm -r bad
	}
	bad 's/\}( *)$/ /'
	bad 's/"shape":/"shape"/'
	bad 's/"dtype":"F32"/&,&/'
	bad "s/\"format\":\"pt\"/\"format\":$(head -c 10000 /dev/zero | tr '\0' '[')/"
}

@test "a full disk: status 1, and nothing half-written" {
	run -1 --separate-stderr sh -c 'dl-import -f hf dense.hf >/dev/full'
	expect_stderr_line '^dl-import: standard output: write: No space left on device$'
	need_small_disk
	run -1 --separate-stderr small_disk 16k sh -c 'dl-import -f hf -o out "$1"; s=$?; ls -A; exit $s' \
		sh "$PWD/wide.hf"
	expect_stdout ""
	expect_stderr_line '^dl-import: out: write: No space left on device$'
}

@test "the output is no input" {
	sharded
	cp "$repo/tests/fuzz/seeds/vocab/bpe" tiny.hf/tokenizer.model
	echo 'lr 1e-4' >train.conf
	ln -s dense.hf soft.hf
	ln dense.hf/config.json hard.json
	ln -s dense.hf/model.safetensors soft.st
	cp -r . "$BATS_TEST_TMPDIR-kept"
	for name in dense.hf/{config.json,model.safetensors} soft.hf/config.json hard.json soft.st train.conf; do
		run -2 --separate-stderr dl-import -f hf -c train.conf -o "$name" dense.hf
		expect_stderr_line "^dl-import: $name: is an input, which the output would replace$"
	done
	for name in tokenizer.model model.safetensors.index.json model-00002-of-00004.safetensors; do
		run -2 --separate-stderr dl-import -f hf -o tiny.hf/$name tiny.hf
		expect_stderr_line "^dl-import: tiny.hf/$name: is an input, which the output would replace$"
	done
	dl-key gen -o own
	cp own.key "$BATS_TEST_TMPDIR-kept"
	cp own.pub "$BATS_TEST_TMPDIR-kept"
	for format in hf safetensors; do
		run -2 --separate-stderr dl-import -f $format -k own.key -o ./own.key dense.hf
		expect_stderr_line "^dl-import: ./own.key: is the key, which the output would replace$"
	done
	run -2 --separate-stderr dl-export -f gguf -k own.key -o ./own.key dense.ckpt
	expect_stderr_line "^dl-export: ./own.key: is the key, which the output would replace$"
	diff -r -x 'separate-stderr*' . "$BATS_TEST_TMPDIR-kept"
	run -2 --separate-stderr sh -c 'dl-import -f hf dense.hf 1<>dense.hf/model.safetensors'
	run -2 --separate-stderr dl-import -f safetensors -o dense.hf/model.safetensors dense.hf/model.safetensors
	expect_stderr_line 'is the input, which the output would replace$'
	dl-import -f hf dense.hf >a.ckpt
}

@test "what does not go together is status 2 and one line" {
	run -2 --separate-stderr dl-import dense.hf
	expect_stderr_line '^dl-import: say which format: -f hf or -f safetensors$'
	run -2 --separate-stderr dl-import -f onnx dense.hf
	expect_stderr_line "^dl-import: option --format: 'onnx' is not hf or safetensors$"
	run -2 --separate-stderr dl-import -f hf
	run -2 --separate-stderr dl-import -f hf dense.hf wide.hf
	run -2 --separate-stderr dl-import -f hf --label '../x' dense.hf
	run -2 --separate-stderr dl-import -f safetensors --check -o x dense.hf/model.safetensors
	run -2 --separate-stderr dl-import -f safetensors --label x dense.hf/model.safetensors
	expect_stderr_line '^dl-import: -c, --label and --seed are for -f hf'
}

# ---- any list of tensors ----

@test "-f safetensors: a checkpoint there and back is the same file" {
	for name in dense wide moe; do
		dl-export -f safetensors -o a.st $name.ckpt
		dl-import -f safetensors a.st >a.ckpt
		expect_same $name.ckpt a.ckpt
		dl-import -f safetensors - <a.st >b.ckpt
		expect_same $name.ckpt b.ckpt
		dl-export -f safetensors -o - $name.ckpt | dl-import -f safetensors - | dl-export -f safetensors -o b.st
		expect_same a.st b.st
	done
}

@test "-f safetensors: tensors of no model become a file of kind tensors, and are given back" {
	dl-import -f safetensors dense.hf/model.safetensors >a.tensors
	run -0 dl-show a.tensors
	expect_stdout_like 'kind +tensors'
	expect_stdout_like 'metadata.format +pt'
	dl-export -f safetensors -o a.st a.tensors
	dl-import -f safetensors a.st >b.tensors
	expect_same a.tensors b.tensors
	run -1 --separate-stderr dl-learn -n 1 -d ids.tok a.tensors
	expect_stderr_line 'is a tensors, not a checkpoint|a.tensors: '
	run -1 --separate-stderr dl-export -f hf -o out a.tensors
	expect_stderr_line '^dl-export: a.tensors: '
	expect_no_file out
}

@test "-f safetensors: integers, scalars, infinities and metadata are kept" {
	header='{"__metadata__":{"made by":"hand","note":"a b"},"b":{"dtype":"U16","shape":[2],"data_offsets":[8,12]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"BF16","shape":[],"data_offsets":[12,14]},"d":{"dtype":"U8","shape":[2],"data_offsets":[14,16]}}'
	{ le64 ${#header}; printf '%s' "$header"; printf '\0\0\200\177\0\0\200\77\1\2\3\4\200\77\5\6'; } >in.st
	dl-import -f safetensors in.st >a.tensors
	dl-export -f safetensors -o out.st a.tensors
	tail -c 16 in.st >want
	tail -c 16 out.st >have
	expect_same want have
	run -0 header out.st
	expect_stdout_like '"note":"a b"'
	[[ $output != *"made by"* ]]
}

@test "-f safetensors: keys of metadata that no header can hold are dropped, however long" {
	local key n
	for n in 55 56 64 65 127 128 1000; do
		key=$(printf "%${n}s" "" | tr ' ' x)
		header='{"__metadata__":{"'$key'":"a","note":"b"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
		{ le64 ${#header}; printf '%s\1\2' "$header"; } >in.st
		run -0 --separate-stderr dl-import -f safetensors -o a.tensors in.st
		expect_no_stderr
		run -0 dl-show a.tensors
		expect_stdout_like 'metadata.note +b'
		[ "$n" -gt 55 ] || expect_stdout_like "metadata.$key +a"
	done
}

@test "-f safetensors: a file that says it is a checkpoint must be one" {
	dl-export -f safetensors -o a.st dense.ckpt
	edit a.st 's/"dl.conf.layers":"2"/"dl.conf.layers":"3"/'
	run -1 --separate-stderr dl-import -f safetensors a.st
	expect_stderr_line '^dl-import: a.st: says it is a checkpoint of dl-export, but: '
	expect_stdout ""
	dl-export -f safetensors -o b.st dense.ckpt
	edit b.st 's/model.norm.weight/model.morn.weight/'
	run -1 --separate-stderr dl-import -f safetensors b.st
	expect_stderr_line "^dl-import: b.st: says it is a checkpoint of dl-export, but: tensor 'model.norm.weight' is missing$"
}

@test "-f safetensors: other programs may write the tensors in another order" {
	dl-export -f safetensors -o a.st dense.ckpt
	# The first tensor of the data goes behind the last one.
	data=$(($(stat -c %s a.st) - 8 - $(header_length a.st)))
	first=$((4 * 300 * 16))
	header a.st | tr '{' '\n' | awk -F'[][,]' -v first=$first -v data=$data '
		/data_offsets/ {
			match($0, /"data_offsets":\[[0-9]+,[0-9]+\]/)
			split(substr($0, RSTART + 16, RLENGTH - 17), at, ",")
			by = at[1] == 0 ? data - first : -first
			$0 = substr($0, 1, RSTART - 1) "\"data_offsets\":[" (at[1] + by) "," (at[2] + by) "]" substr($0, RSTART + RLENGTH)
		}
		{ printf("%s%s", (NR > 1 ? "{" : ""), $0) }' >moved.json
	{
		le64 "$(stat -c %s moved.json)"
		cat moved.json
		tail -c $((data - first)) a.st
		tail -c $data a.st | head -c $first
	} >moved.st
	dl-import -f safetensors moved.st >a.ckpt
	expect_same dense.ckpt a.ckpt
	run -1 --separate-stderr sh -c 'cat moved.st | dl-import -f safetensors - >out'
	expect_stderr_line 'a stream cannot be read out of order$'
}

@test "-f safetensors: types that no sealed file has, cut and longer streams" {
	dl-export -f safetensors -o a.st dense.ckpt
	cp a.st b.st
	edit b.st 's/F32/F64/'
	run -1 --separate-stderr dl-import -f safetensors -o out b.st
	expect_stderr_line "^dl-import: b.st: header: tensor 'model.embed_tokens.weight' is of type F64: only F32, BF16, F16, U8, U16 and U32 can be read$"
	run -1 --separate-stderr sh -c 'head -c -1 a.st | dl-import -f safetensors -o out -'
	expect_stderr_line '^dl-import: standard input: cut short: ends within its data$'
	run -1 --separate-stderr sh -c '{ cat a.st; echo; } | dl-import -f safetensors -o out -'
	expect_stderr_line '^dl-import: standard input: goes on after its last tensor$'
	run -1 --separate-stderr dl-import -f safetensors -o out /dev/null
	expect_stderr_line '^dl-import: /dev/null: 0 bytes are no safetensors file$'
	expect_no_file out
}

# ---- use ----

@test "an imported model trains on, in rounds and in a run, with vocabulary and context of its own" {
	dl-import -f hf dense.hf >a.ckpt
	dl-learn -n 3 -B 2 -d ids.tok a.ckpt | dl-merge --outer-lr 1 --momentum 0 a.ckpt - >b.ckpt
	run -0 dl-show b.ckpt
	expect_stdout_like 'step +3'
	dl-export -f hf -o b.hf b.ckpt
	dl-import -f hf --check -o c.ckpt b.hf
	dl-init -r run -P 2 -H 2 --target-steps 4 a.ckpt
	dl-learn -q -r run -i a -B 2 -d ids.tok 3>&- &
	dl-sync -q -r run
	wait
	dl-export -f hf --check -o d.hf run/ckpt/*.ckpt
	grep -q '"vocab_size": 300' d.hf/config.json
	grep -q '"max_position_embeddings": 32' d.hf/config.json
}

@test "stories260K: a trained Llama of others, its loss on five stories and its own story" {
	need_shared data/models/stories260K/model.safetensors
	command -v python3 >/dev/null || skip "no python3"
	dl-import -f hf --check -o s.ckpt "$shared/data/models/stories260K"
	python3 - "$shared/data/models/stories260K/vocab.json" "$shared/data/text/tinystories_sample.txt" <<-'END' >stories
		# Each story as ids: pieces are joined in the order of their scores, as SentencePiece does.
		import json, sys
		vocab = {t: (s, i) for i, (t, s) in enumerate(json.load(open(sys.argv[1])))}
		for story in open(sys.argv[2]).read().split("<|endoftext|>"):
		    out = list(" " + story.strip())
		    while True:
		        pairs = [(vocab[a + b][0], -i) for i, (a, b) in enumerate(zip(out, out[1:])) if a + b in vocab]
		        if not pairs:
		            break
		        i = -max(pairs)[1]
		        out[i:i + 2] = [out[i] + out[i + 1]]
		    ids = [1]
		    for t in out:
		        ids += [vocab[t][1]] if t in vocab else [3 + b for b in t.encode()]
		    if story.strip():
		        print(len(story.strip().encode()), *ids)
	END
	while read -r bytes ids; do
		dl-data --ids --vocab 512 -o story <<<"$ids"
		dl-eval --json -d story.tok s.ckpt | sed "s/.*\"loss\":\([0-9.]*\),.*\"tokens\":\([0-9]*\),.*/\1 \2 $bytes/"
	done <stories >losses
	run -0 awk '{ loss += $1 * $2; n += $2; bytes += $3 } END { printf "%d %.4f %.4f", n, loss / n, loss / log(2) / bytes }' losses
	expect_stdout "1804 1.2664 0.8868"
	dl-eval --sample 40 --prompt 1 --temperature 0 s.ckpt >ids
	run -0 python3 -c 'import json, sys
vocab = [t for t, s in json.load(open(sys.argv[1]))]
print("".join(vocab[int(i)] for i in open("ids").read().split()))' "$shared/data/models/stories260K/vocab.json"
	expect_stdout_like 'Once upon a time, there was a little girl named Lily. She loved to play outside in the park'
}

@test "memory stays below 64 MiB for a model of 90 MB, both ways, and with several files" {
	need_plain_build
	printf '%s\n' 'd_model 512' 'layers 1' 'heads 4' 'ff 1024' 'context 32' 'vocab 40000' >large.conf
	dl-init -c large.conf -o large.ckpt
	for size in 5000 40; do
		dl-measure dl-export -f hf --shard-size $size -o large.hf large.ckpt 2>words
		[ "$(stat -c %s large.hf/*.safetensors | awk '{ n += $1 } END { print n }')" -gt 80000000 ]
		read -r _ mib < <(tail -n 1 words)
		[ "$mib" -lt 64 ] || complain "export: $mib MiB"
		dl-measure dl-import -f hf -o again.ckpt large.hf 2>words
		read -r _ mib < <(tail -n 1 words)
		[ "$mib" -lt 64 ] || complain "import: $mib MiB"
		rm -r large.hf
	done
}
