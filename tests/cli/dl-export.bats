# dl-export: a sealed file in, a format of others out.

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
	expect_stderr_line "^dl-export: option --format: 'onnx' is none that can be written; see -h$"
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
