load helper

# conf LINE...: my.conf, a small model and these lines.
conf() {
	printf '%s\n' 'd_model 32' 'layers 2' 'heads 2' 'ff 64' 'context 32' "$@" >my.conf
}
# refused WHY [OPTION...]: my.conf is refused with this message, and nothing is written.
refused() {
	local why=$1
	shift
	run -2 --separate-stderr dl-init -c my.conf "$@"
	expect_stdout ""
	expect_stderr_line "^dl-init: my\.conf: $why"
}

@test "the same configuration, seed and key give the same bytes" {
	run -0 --separate-stderr bash -c 'dl-init >a.ckpt'
	expect_no_stderr
	dl-init -c tiny --seed 0 -o b.ckpt
	expect_same a.ckpt b.ckpt
	LC_ALL=de_DE.UTF-8 dl-init -c tiny >c.ckpt
	expect_same a.ckpt c.ckpt
	dl-init --seed 1 >d.ckpt
	expect_differ a.ckpt d.ckpt
	expect_no_temporary
}

@test "another key seals the same values" {
	dl-init -v >a.ckpt 2>a
	new_home other
	dl-init -v >b.ckpt 2>b
	expect_differ a.ckpt b.ckpt
	[ "$(grep -o 'run .*' a)" = "$(grep -o 'run .*' b)" ]
}

@test "a run is named by configuration, seed and label" {
	id() { dl-init -v "$@" 2>&1 >/dev/null | sed 's/.*of run \([0-9a-f]*\):.*/\1/'; }
	conf 'lr 0.1'
	a=$(id -c my.conf)
	[ "${#a}" -eq 32 ]
	[ "$a" != "$(id -c my.conf --seed 2)" ]
	[ "$a" != "$(id -c my.conf --label again)" ]
	conf 'lr 0.1' 'batch 8'
	[ "$a" = "$(id -c my.conf)" ]
	conf 'lr 0.2'
	[ "$a" != "$(id -c my.conf)" ]
	conf 'lr 0.1' 'rope_theta 9999'
	[ "$a" != "$(id -c my.conf)" ]
}

@test "a label is a name and stays with the run" {
	conf
	dl-init -c my.conf --label second-try -o g0.ckpt
	dl-show g0.ckpt | grep -qE '^  label +second-try$'
	corpus 5000 >text
	dl-data -o text text
	dl-learn -j 1 -n 1 -d text.tok g0.ckpt >a.delta
	dl-merge g0.ckpt a.delta >g1.ckpt
	dl-show g1.ckpt | grep -qE '^  label +second-try$'
	for label in '' 'a b' ../x; do
		run -2 --separate-stderr dl-init --label "$label"
		expect_stderr_line '^dl-init: label .*: a name is 1 to 64 of'
	done
}

@test "a warm-up that is longer than the decay is warned of" {
	conf 'warmup 100' 'decay_steps 50'
	run -0 --separate-stderr dl-init -c my.conf -o g0.ckpt
	expect_stderr_line '^dl-init: .*warmup 100 is longer than decay_steps 50'
	for line in 'decay_steps 100' 'decay_steps 0'; do
		conf 'warmup 100' "$line"
		run -0 --separate-stderr dl-init -c my.conf -o g0.ckpt
		expect_no_stderr
	done
}

@test "--print gives a configuration with every key that means the same" {
	for c in tiny small medium moe; do
		run -0 --separate-stderr dl-init --print -c $c
		expect_no_stderr
		printf '%s\n' "$output" >$c.conf
		[ "$(sort $c.conf | cut -d' ' -f1 | uniq -d | wc -l)" -eq 0 ]
		run -0 dl-init --print -c ./$c.conf
		[ "$output" = "$(cat $c.conf)" ]
	done
	dl-init -c tiny.conf >a.ckpt
	dl-init <tiny.conf -c - >b.ckpt
	dl-init >c.ckpt
	expect_same a.ckpt c.ckpt
	expect_same b.ckpt c.ckpt
	for key in vocab d_model layers heads kv_heads head_dim ff context tied rope_theta norm_eps \
		init_std experts lr lr_min_ratio warmup decay_steps beta1 beta2 eps weight_decay clip batch; do
		grep -qE "^$key +[^ ]+ +# [a-zA-Z0-9]" tiny.conf
	done
}

@test "every key of dl-model(5) is a key, and the other way round" {
	dl-init --print -c moe --tokenizer "$repo/tests/fuzz/seeds/vocab/bpe" | cut -d' ' -f1 | sort >program
	sed -n '/^\.Ss Keys/,/^\.Ss Presets/s/^\.It Cm //p' "$repo/man/dl-model.5" |
		tr -d ' ' | tr ',' '\n' | sort >manual
	expect_same program manual
}

@test "lines may end in CRLF, begin with a byte order mark, have = and comments" {
	conf 'lr 0.5' 'tied no'
	dl-init --print -c my.conf >plain
	printf '\xef\xbb\xbf# mine\r\n' >my2.conf
	sed 's/ / = /; s/$/   # why\r/' my.conf >>my2.conf
	dl-init --print -c my2.conf >odd
	expect_same plain odd
	tr -d '\n' <my.conf | head -c 0 >empty.conf
	run -2 --separate-stderr dl-init -c empty.conf
	expect_stderr_line "^dl-init: empty\.conf: key 'd_model' is missing$"
}

@test "unknown keys, keys given twice and bad values are refused with their line" {
	conf 'layerz 3'
	refused "line 6: unknown key 'layerz', did you mean 'layers'\?$"
	conf 'steps 100'
	refused "line 6: unknown key 'steps', did you mean 'decay_steps'\?$"
	conf 'dropout 0.1'
	refused "line 6: unknown key 'dropout'$"
	conf '' 'layers 3'
	refused "line 7: key 'layers' given twice$"
	conf 'lr'
	refused "line 6: key 'lr' has no value$"
	conf 'lr ='
	refused "line 6: key 'lr' has no value$"
	conf 'lr 0.7abc'
	refused "line 6: lr: '0\.7abc' is not a decimal number$"
	conf 'lr 0,7'
	refused "line 6: lr: '0,7' is not a decimal number$"
	conf 'lr 1e999'
	refused "line 6: lr: '1e999' is not a number that fits$"
	for x in nan inf -inf 0x1p3; do
		conf "lr $x"
		refused "line 6: lr: '$x' is not a decimal number$"
	done
	conf 'lr -1'
	refused 'line 6: lr: -1 is not within 0 to 1000$'
	conf 'batch 0'
	refused 'line 6: batch: 0 is not within 1 to '
	conf 'batch 1.5'
	refused "line 6: batch: '1\.5' is not a whole number$"
	conf 'beta2 1'
	refused 'line 6: beta2: 1 is not within 0 to '
	conf 'tied maybe'
	refused "line 6: tied: 'maybe' is neither yes nor no$"
	conf $'lr 1\x01'
	refused 'line 6: control character 0x01$'
	conf 'Layers 3'
	refused "line 6: 'Layers' is not a key$"
	expect_no_temporary
}

@test "contradictions are named" {
	set_key() { sed -i "/^$1 /d" my.conf && echo "$1 $2" >>my.conf; }
	conf && set_key heads 3
	refused 'd_model 32 is not a multiple of heads 3'
	conf 'kv_heads 3'
	refused 'heads 2 is not a multiple of kv_heads 3$'
	conf 'head_dim 7'
	refused 'head_dim 7 is odd'
	conf 'experts 2' 'experts_per_token 3'
	refused 'experts_per_token 3 is more than experts 2$'
	conf && set_key layers 0
	refused '.*layers: 0 is not within 1 to '
	conf && set_key d_model 18446744073709551617
	refused ".*d_model: '18446744073709551617' is not a whole number below 2\^64$"
	conf && set_key d_model 4294967296
	refused '.*d_model: 4294967296 is not within 1 to '
	conf 'vocab 1'
	refused '.*vocab: 1 is not within 2 to '
}

@test "a file that is missing, a directory, too long or no preset is named" {
	run -2 --separate-stderr dl-init -c huge
	expect_stdout ""
	expect_stderr_line '^dl-init: neither tiny, small, medium or moe nor a file: huge: No such file'
	run -1 --separate-stderr dl-init -c ./huge
	expect_stderr_line '^dl-init: \./huge: No such file'
	run -1 --separate-stderr dl-init -c .
	expect_stderr_line '^dl-init: \.: is a directory'
	head -c 2000000 /dev/zero | tr '\0' '#' >long.conf
	run -2 --separate-stderr dl-init -c long.conf
	expect_stderr_line '^dl-init: long\.conf: longer than'
	printf 'd_model 3\0 2\n' >nul.conf
	run -2 --separate-stderr dl-init -c nul.conf
	expect_stderr_line '^dl-init: nul\.conf: line 1: control character 0x00'
}

@test "wrong options are refused with status 2" {
	for seed in -1 1.5 x '' 18446744073709551616; do
		run -2 --separate-stderr dl-init --seed "$seed"
		expect_stdout ""
		expect_stderr_line '^dl-init: option --seed: '
	done
	run -2 --separate-stderr dl-init tiny
	expect_stderr_line '^dl-init: no operands are taken: the configuration goes with -c$'
	run -2 --separate-stderr dl-init --print --seed 3
	expect_stderr_line '^dl-init: --print goes with -c and --tokenizer alone$'
	run -2 --separate-stderr dl-init --tau 3
	expect_stderr_line '^dl-init: option --tau is for run directories, and goes with -r RUN$'
	for options in "-P 8 --fragments" "-H 8 --interval" "--lease 9s --lease" "--momentum 0 --momentum" \
		"--target-tokens 9 --target-tokens" "-T . --trust"; do
		# shellcheck disable=SC2086 # words on purpose
		run -2 --separate-stderr dl-init ${options% *}
		expect_stderr_line "^dl-init: option ${options##* } is for run directories, and goes with -r RUN\$"
	done
}

@test "an output that is a device or a pipe is refused with what to do, which works" {
	mkfifo pipe
	for place in /dev/null pipe; do
		run -1 --separate-stderr dl-init -o $place
		expect_stderr_line "^dl-init: $place: not a regular file, .*: give '-' as the output, and > $place\$"
	done
	dl-init -o - >/dev/null
}

@test "a full disk or output is an error, the file that was there stays" {
	run -1 --separate-stderr bash -c 'dl-init >/dev/full'
	expect_stderr_line '^dl-init: standard output: .*No space left'
	run -1 --separate-stderr dl-init -o nowhere/x.ckpt
	expect_stderr_line '^dl-init: nowhere/x\.ckpt: No such file'
	run -1 --separate-stderr dl-init -o .
	expect_stderr_line '^dl-init: \.: not a regular file'
	need_small_disk
	dl-key show >/dev/null
	run -1 --separate-stderr small_disk 300k bash -c '
		echo old >x.ckpt; dl-init -o x.ckpt; s=$?; ls -A; cat x.ckpt; exit $s'
	expect_stderr_line '^dl-init: x\.ckpt: .*No space left'
	expect_stdout $'x.ckpt\nold'
}

@test "a reader that goes away ends it quietly" {
	run bash -c 'dl-init | head -c 100 >/dev/null; echo "${PIPESTATUS[0]}"'
	expect_stdout_like '^141$'
}

@test "memory does not grow with the model" {
	need_plain_build
	conf
	sed -i 's/^d_model.*/d_model 1024/; s/^ff.*/ff 4096/; s/^heads.*/heads 16/' my.conf
	(ulimit -v 150000 && dl-init -c my.conf >big.ckpt)
	[ "$(stat -c %s big.ckpt)" -gt 80000000 ]
}

# ---- run directories

# value KEY FILE: of a header.
value() {
	dl-show "$2" | sed -n "s/^  $1  *//p"
}

@test "a run directory appears whole: manifest, version 0, and room for others" {
	conf
	run -0 --separate-stderr dl-init -r run -c my.conf -P 4
	expect_stdout ""
	expect_no_stderr
	run -0 find run -type f
	[ "$(sort <<<"$output")" = "$(printf '%s\n' run/global/f00{0,1,2,3}/0.frag run/manifest)" ]
	[ -d run/learner ] && [ -d run/syncer/outer/f003 ] && [ -d run/ckpt ]
	expect_no_temporary
	dl-show --verify run/manifest run/global/f00?/0.frag
	[ "$(value kind run/manifest)" = manifest ]
	[ "$(value serial run/manifest)" = 1 ]
	[ "$(value kind run/global/f002/0.frag)" = fragment ]
	[ "$(value fragment run/global/f002/0.frag)" = f002 ]
	[ "$(value run run/global/f002/0.frag)" = "$(value run run/manifest)" ]
	[ "$(value model run/global/f002/0.frag)" = "$(value model run/manifest)" ]
}

# tensors FILE...: what is in the tensors, line by line, whatever file they are in.
tensors() {
	dl-show "$@" | sed -n 's/^  \([a-z_.0-9]*\.weight\)  */\1 /p' | sort
}

@test "the first version has the values of the checkpoint, from a seed and from a file" {
	conf
	dl-init -c my.conf --seed 7 -o g0.ckpt
	dl-init -c my.conf --seed 7 -r fresh -P 5
	tensors g0.ckpt >want
	[ "$(wc -l <want)" -eq 20 ]
	tensors fresh/global/*/0.frag >have
	expect_same want have
	dl-init -r copy -P 3 g0.ckpt
	tensors copy/global/*/0.frag >have
	expect_same want have
	[ "$(value seed copy/manifest)" = 7 ]
	[ "$(value base copy/manifest)" = "$(value identity g0.ckpt)" ]
	dl-init -r piped -P 3 - <g0.ckpt
	tensors piped/global/*/0.frag >have
	expect_same want have
}

@test "a checkpoint brings its configuration, and may be trained otherwise" {
	conf 'lr 0.5'
	dl-init -c my.conf -o g0.ckpt
	dl-init -r a g0.ckpt
	[ "$(value conf.lr a/manifest)" = 0.5 ]
	conf 'lr 0.25'
	dl-init -r b -c my.conf g0.ckpt
	[ "$(value conf.lr b/manifest)" = 0.25 ]
	conf 'vocab 300'
	run -2 --separate-stderr dl-init -r c -c my.conf g0.ckpt
	expect_stderr_line '^dl-init: my\.conf: describes another model than g0\.ckpt$'
	head -c 2000 g0.ckpt >cut.ckpt
	run -3 --separate-stderr dl-init -r c cut.ckpt
	expect_stderr_line '^dl-init: cut\.ckpt: '
	new_home
	run -3 --separate-stderr dl-init -r c g0.ckpt
	expect_stderr_line '^dl-init: g0\.ckpt: signed by .*, which is not trusted'
	expect_no_file c
	expect_no_temporary
}

@test "no two runs are alike" {
	conf
	dl-init -r a -c my.conf -P 2
	dl-init -r b -c my.conf -P 2
	[ "$(value run a/manifest)" != "$(value run b/manifest)" ]
	[ "$(value identity a/global/f000/0.frag)" != "$(value identity b/global/f000/0.frag)" ]
	[ "$(value content a/global/f000/0.frag)" = "$(value content b/global/f000/0.frag)" ]
}

@test "every option is in the manifest" {
	conf
	dl-init -r run -c my.conf --label mine -P 5 -H 0.03k -K 3 --tau 4 --invite 6 --gamma 0.5 --rule direct \
		--outer-lr 0.25 --momentum 0.75 --outlier 12 --adopt mix:0.5 --delta bf16 --target-steps 100 --expert-weights routed \
		--target-tokens 2000 --checkpoint-every 50 --keep 7 --lease 2m
	for want in 'label mine' 'fragments 5' 'interval 30' 'quorum 3' 'overlap 4' 'invite 6' 'grace 0.5' \
		'rule direct' 'expert_weights routed' 'outer_lr 0.25' 'momentum 0.75' 'outlier 12' 'adopt mix:0.5' 'delta bf16' \
		'target_steps 100' 'target_tokens 2000' 'checkpoint_every 50' 'keep 7' 'lease 120'; do
		[ "$(value "${want% *}" run/manifest)" = "${want#* }" ] || complain "not: $want"
	done
}

@test "-v tells the run, and how large the fragments are" {
	conf
	run -0 --separate-stderr dl-init -v -r run -c my.conf
	[[ ${stderr_lines[0]} =~ 'dl-init: 20 fragments: the model has no more tensors' ]]
	expect_stderr_like 'run: run [0-9a-f]{32}: 28832 parameters in 20 fragments of 1442 on average, the largest 8192 \(5\.68 times\)'
	run -0 --separate-stderr dl-init -v -r run2 -P 3
	expect_stderr_line 'in 3 fragments of .* \(1\.0[0-9] times\)$'
}

@test "a name that is taken stays as it is; an empty directory is filled" {
	conf
	mkdir full empty
	touch full/file file
	ln -s nowhere hanging
	for name in full file hanging full/; do
		run -1 --separate-stderr dl-init -r $name -c my.conf
		expect_stderr_line "^dl-init: $name: (is there already|Not a directory)"
	done
	expect_no_file nowhere full/manifest
	chmod 750 empty
	dl-init -r empty/ -c my.conf
	[ -e empty/manifest ]
	[ "$(stat -c %a empty)" = 750 ]
	run -1 --separate-stderr dl-init -r empty -c my.conf
	expect_stderr_line '^dl-init: empty: is there already'
	mkdir here && cd here
	run -1 --separate-stderr dl-init -r . -c ../my.conf
	expect_stderr_line '^dl-init: \.: cannot be the current directory'
	run -1 --separate-stderr dl-init -r none/run -c ../my.conf
	expect_stderr_line '^dl-init: none/run: No such file'
	cd ..
	expect_no_temporary
}

@test "a run has the defaults that the manual tells" {
	local line
	dl-init -r run -c tiny
	dl-show run >told
	for line in 'interval 24' 'overlap 2' 'quorum 1' 'grace 1' 'rule rda' 'outer_lr 0.7' 'momentum 0.9' 'adopt rebase' \
		'delta f32' 'keep 2' 'lease 30'; do
		grep -qx " *${line% *}  *${line#* }" told || complain "not '$line'"
	done
}

@test "what makes no sense in a run is refused with status 2, and nothing is made" {
	conf
	for option in '-P 0' '-P 1001' '-P x' '-H 0' '-K 0' '-K -1' '--tau 0' '--lease 0' '--momentum 1' \
		'--gamma -1' '--outer-lr nan' '--keep -1' '--target-steps 1.5' '--rule mean' '--expert-weights all' '--adopt some' \
		'--adopt mix:2' '--adopt mix:' '--delta raw' '--delta q4'; do
		# shellcheck disable=SC2086 # two words
		run -2 --separate-stderr dl-init -r run -c my.conf $option
		expect_stdout ""
		expect_stderr_line "^dl-init: option "
	done
	run -2 --separate-stderr dl-init -r run -c my.conf -P 21
	expect_stderr_line '^dl-init: 21 fragments, and the model has only 20 tensors$'
	run -2 --separate-stderr dl-init -r run -c my.conf -K 3 --invite 2
	expect_stderr_line '^dl-init: of 2 learners invited to a round there is never a quorum of 3$'
	run -2 --separate-stderr dl-init -r run -o x.ckpt
	expect_stderr_line '^dl-init: --output is for a checkpoint, not with --run$'
	run -2 --separate-stderr dl-init -r run --print
	run -2 --separate-stderr dl-init -r run a.ckpt b.ckpt
	expect_stderr_line '^dl-init: one checkpoint to begin from, not 2$'
	expect_no_file run
	expect_no_temporary
}

@test "a run directory that cannot be finished leaves nothing" {
	need_small_disk
	dl-key show >/dev/null
	run -1 --separate-stderr small_disk 1m bash -c 'dl-init -r run; s=$?; ls -A; exit $s'
	expect_stderr_line '^dl-init: run: global/f0[0-9]*/0\.frag: .*No space left'
	expect_stdout ""
}

@test "memory for a run directory does not grow with the model" {
	need_plain_build
	conf
	sed -i 's/^d_model.*/d_model 1024/; s/^ff.*/ff 4096/; s/^heads.*/heads 16/' my.conf
	(ulimit -v 400000 && dl-init -c my.conf -r run)
	[ "$(du -s run | cut -f1)" -gt 80000 ]
}
