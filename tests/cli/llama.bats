# llama.cpp as a second opinion: it loads what dl-export -f gguf wrote, and says the same as dl-eval.
#
# DL_LLAMA names a directory in which a prebuilt llama.cpp has been put by
#     npm install --ignore-scripts --omit=optional node-llama-cpp @node-llama-cpp/linux-x64

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	[ -n "${DL_LLAMA-}" ] || return 0
	# weights that say something without training: large ones
	printf '%s\n' 'd_model 64' 'layers 2' 'heads 4' 'kv_heads 2' 'ff 96' 'context 64' 'init_std 0.15' >dense.conf
	printf '%s\n' 'tied no' 'rope_theta 500' 'norm_eps 1e-4' 'head_dim 32' >>dense.conf
	dl-init -c dense.conf --seed 1 >dense.ckpt
	printf '%s\n' 'experts 6' 'experts_per_token 2' 'ff 64' >moe.conf
	grep -v '^ff' dense.conf >>moe.conf
	dl-init -c moe.conf --seed 2 >moe.ckpt
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	[ -n "${DL_LLAMA-}" ] || skip "no DL_LLAMA (see tests/cli/llama.bats)"
	command -v node >/dev/null || skip "no node"
}

# llama NAME IDS N [TEXT]: what llama.cpp makes of NAME.gguf, into NAME.theirs.
llama() {
	node "$repo/tests/llama/run.mjs" "$1.gguf" "${@:2}" >"$1.theirs"
}

# same_logprobs NAME CKPT VOCAB IDS LIMIT [CONTEXT]: no log-probability is further from dl-eval's.
same_logprobs() {
	printf '%s\n' "$4" | dl-data --ids --vocab "$3" | dl-eval -d - -j 1 -T "${6-63}" --logprobs "$2" >"$1.ours"
	[ "$(wc -l <"$1.ours")" -eq "$(wc -w <<<"$4")" ]
	grep ^logprob "$1.theirs" | awk -v limit="$5" '
		NR == FNR { if (FNR > 1) { id[$1] = $2; value[$1] = $3; n++ }; next }
		{ d = $4 - value[$2]; d = d < 0 ? -d : d; most = d > most ? d : most
		  if ($3 != id[$2] || !(d <= limit)) bad++; seen++ }
		END { print "largest difference", most; exit bad || seen != n }' "$1.ours" - >&2
}

# same_greedy NAME CKPT ID N
same_greedy() {
	local ours theirs
	ours=$(dl-eval --sample "$4" --prompt "$3" --temperature 0 -T 63 -j 1 "$2" | to_ids | cut -d' ' -f2-)
	theirs=$(sed -n 's/^greedy //p' "$1.theirs")
	[ "$ours" = "$theirs" ] || complain "dl-eval goes on with: $ours" "llama.cpp: $theirs"
}
to_ids() {
	od -An -v -tu1 | xargs
}

ids="72 101 108 108 111 32 119 195 182 114 108 100 10 0 255 128 65 66 67 32 32 97"

@test "f32: bytes, grouped queries: log-probabilities to 1e-4, the same greedy text, a text is its bytes" {
	dl-export -f gguf -o dense.gguf dense.ckpt
	llama dense "$ids" 24 $'Hello, w\xc3\xb6rld!\n\t "\xe6\xbc\xa2" \xf0\x9f\x99\x82  <0x41></s>[x] a ?'
	same_logprobs dense dense.ckpt 256 "$ids" 1e-4
	same_greedy dense dense.ckpt H 24
	grep -x "tokens $(printf 'Hello, w\303\266rld!\n\t "\346\274\242" \360\237\231\202  <0x41></s>[x] a ?' | to_ids)" \
		dense.theirs
	grep -xF 'text "Hello, wörld!\n\t \"漢\" 🙂  <0x41></s>[x] a ?"' dense.theirs
}

@test "f16 and bf16: to 5e-3 and 5e-2; q8_0 loads" {
	for type in f16 bf16 q8_0; do
		dl-export -f gguf --dtype $type -o $type.gguf dense.ckpt
		llama $type "$ids" 1
	done
	same_logprobs f16 dense.ckpt 256 "$ids" 5e-3
	same_logprobs bf16 dense.ckpt 256 "$ids" 0.05
	same_logprobs q8_0 dense.ckpt 256 "$ids" 0.3
}

@test "a mixture of experts: f32 to 1e-4 and the same greedy text, f16 to 5e-3" {
	dl-export -f gguf -o moe.gguf moe.ckpt
	llama moe "$ids" 24
	same_logprobs moe moe.ckpt 256 "$ids" 1e-4
	same_greedy moe moe.ckpt H 24
	dl-export -f gguf --dtype f16 -o moe16.gguf moe.ckpt
	llama moe16 "$ids" 1
	same_logprobs moe16 moe.ckpt 256 "$ids" 5e-3
}

@test "vocabularies of SentencePiece: a text becomes the same ids, and the model says the same of them" {
	command -v spm_train >/dev/null || skip "no sentencepiece"
	corpus 60000 >text
	for kind in bpe unigram; do
		spm_train --input=text --model_prefix=$kind --model_type=$kind --vocab_size=400 --byte_fallback \
			--hard_vocab_limit=false --normalization_rule_name=identity --minloglevel=2 2>/dev/null
		dl-init -c dense.conf --tokenizer $kind.model >$kind.ckpt
		dl-export -f gguf --tokenizer $kind.model -o $kind.gguf $kind.ckpt
		line="The old river carries a letter and the captain remembers."
		tokens=$(spm_encode --model=$kind.model --output_format=id --extra_options=bos <<<"$line")
		llama $kind "$tokens" 1 "$line"
		same_logprobs $kind $kind.ckpt "$(wc -l <$kind.vocab)" "$tokens" 1e-4
		# the library's tokenizer adds no begin piece here
		[ "1 $(sed -n 's/^tokens //p' $kind.theirs)" = "$tokens" ] ||
			complain "spm_encode: $tokens" "llama.cpp: $(grep ^tokens $kind.theirs)"
	done
}

@test "a model of a padded vocabulary loads, and one without a vocabulary takes ids" {
	command -v spm_train >/dev/null || skip "no sentencepiece"
	[ -e bpe.model ] || skip "no vocabulary was made"
	{ echo 'vocab 416'; cat dense.conf; } >padded.conf
	dl-init -c padded.conf --tokenizer bpe.model >padded.ckpt
	dl-export -f gguf --tokenizer bpe.model -o padded.gguf padded.ckpt
	llama padded "1 300 310 415 20" 1
	same_logprobs padded padded.ckpt 416 "1 300 310 415 20" 1e-4
	run -0 --separate-stderr dl-export -f gguf -o ids.gguf padded.ckpt
	expect_stderr_line '^dl-export: without --tokenizer ids stand for themselves: llama.cpp takes and writes \[7\] for id 7, and no text$'
	llama ids "1 300 310 415 20" 1 "[1][300][310][415][20]"
	grep -x 'tokens 1 300 310 415 20' ids.theirs
	grep -xF 'text "[1][300][310][415][20]"' ids.theirs
	same_logprobs ids padded.ckpt 416 "1 300 310 415 20" 1e-4
}

@test "a trained Llama of others, imported and exported: the same" {
	need_shared data/models/stories260K
	dl-import -f hf "$shared/data/models/stories260K" >stories.ckpt
	dl-export -f gguf -q -o stories.gguf stories.ckpt
	tokens="1 403 407 261 378 31 17 5 100 200 300 400 500"
	llama stories "$tokens" 40
	same_logprobs stories stories.ckpt 512 "$tokens" 1e-4
	[ "$(dl-eval --sample 40 --prompt 1 --temperature 0 -T 63 -j 1 stories.ckpt | cut -d' ' -f2-)" = \
		"$(sed -n 's/^greedy //p' stories.theirs)" ]
}

# as_printed PAGE: its examples, in a directory of their own.
as_printed() {
	mkdir "$1"
	cd "$1" || return
	corpus 200000 >corpus.txt
	examples "$repo/man/$1" >page.sh
	sh -e page.sh
}

@test "dl-interchange(7) as printed ends in a file that llama.cpp runs" {
	as_printed dl-interchange.7
	llama tuned "$ids" 1 "In the beginning"
	same_logprobs tuned run/ckpt/*.ckpt 256 "$ids" 5e-3
	grep -x "tokens $(printf 'In the beginning' | to_ids)" tuned.theirs
}

@test "dl-sentencepiece(7) as printed ends in a file that llama.cpp runs, and reads text for" {
	command -v spm_train >/dev/null || skip "no sentencepiece"
	as_printed dl-sentencepiece.7
	line="The old river carries a letter."
	tokens=$(spm_encode --model=m.model --output_format=id --extra_options=bos <<<"$line")
	llama tuned "$tokens" 1 "$line"
	same_logprobs tuned run/ckpt/*.ckpt "$(wc -l <m.vocab)" "$tokens" 5e-3 32
	[ "1 $(sed -n 's/^tokens //p' tuned.theirs)" = "$tokens" ] ||
		complain "spm_encode: $tokens" "llama.cpp: $(grep ^tokens tuned.theirs)"
}
