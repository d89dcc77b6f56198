# dl-run: what is wrong where a run is or belongs, and what is relative.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'decay_steps 60' >small.conf
	corpus 30000 >text.txt
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{small.conf,text.txt} .
}
make_run() {
	in_time dl-run -q -m 2 --corpus text.txt -c small.conf -P 2 --target-steps 16 "$@"
}

@test "a run whose manifest is lost is not to be removed for another" {
	make_run --print run >/dev/null
	rm run/manifest
	local lost
	for lost in nothing global head; do
		[ "$lost" = nothing ] || rm -rf "run/$lost"
		[ "$lost" != global ] || : >run/head
		run --separate-stderr in_time dl-run -m 2 run
		if [ "$lost" = head ]; then # nothing tells that it was one
			expect_stderr_line '^dl-run: run: is there already: '
		else
			expect_status 1
			expect_stderr_line '^dl-run: run: its manifest is not there: bring it back from any copy of the run, .* dl-init -r NEW run/ckpt/STEP\.ckpt$'
		fi
		[ -e run/data/2.0.tok ]
	done
}

@test "a file where the log belongs is named with its run, and left as it is" {
	make_run --print run >/dev/null
	rm -r run/log
	echo mine >run/log
	run -1 --separate-stderr in_time dl-run -m 2 run
	expect_stderr_line '^dl-run: run/log: is no directory, .*: give it another name$'
	[ "$(cat run/log)" = mine ]
}

@test "relative places in the environment are those from where it was started" {
	mkdir tmp relh
	export TMPDIR=tmp HOME=relh
	unset XDG_CONFIG_HOME
	make_run run
	[ -z "$(ls -A tmp)" ] && [ -s relh/.config/dl/default.key ] || complain "$(ls -AR tmp relh)"
	[ -z "$(find run -name .config)" ]
	run -0 --separate-stderr in_time dl-run -m 2 run
	dl-show --verify run/head
	TMPDIR=nowhere run -1 --separate-stderr in_time dl-run -m 2 run
	expect_stderr_like "/nowhere'?: No such file"
}

@test "too little room for a new run: the message has its name, and nothing is left" {
	need_small_disk
	local size
	for size in 40k 80k 120k 160k; do
		run --separate-stderr small_disk "$size" sh -c 'dl-run -m 2 --corpus "$1/text.txt" -c "$1/small.conf" --print run10
			s=$?; ls -A; exit $s' sh "$PWD"
		[ "$status" -ne 0 ] || continue
		[ "$output" = "" ] || complain "$size"
		expect_stderr_line '^dl-run: .*No space left on device'
		[[ $stderr != *.tmp* ]] || complain "$size"
	done
}

@test "learners that die for want of room are no reason to give up" {
	need_small_disk
	mkdir stubs
	cp "$DL_BIN/dl-run" stubs
	printf '%s\n' '#!/bin/sh' 'exec sleep 600' >stubs/dl-sync
	printf '%s\n' '#!/bin/sh' '[ ! -e ../filler ] || exit 1' 'echo >>../alive; exec sleep 600' >stubs/dl-learn
	chmod +x stubs/dl-*
	cat >within.sh <<-'END'
		dl-run -q --print -m 1 --corpus "$1/text.txt" -c "$1/small.conf" -P 2 run >/dev/null
		cat /dev/zero >filler 2>/dev/null
		"$1/stubs/dl-run" -v -m 1 run >/dev/null 2>"$1/err" 3>&- & runner=$!
		until grep -q "death 6 in a row" "$1/err" || ! kill -0 "$runner"; do sleep 0.2; done
		sleep 2.5
		rm filler
		until [ -e alive ] || ! kill -0 "$runner"; do sleep 0.2; done
		kill "$runner"
		wait "$runner"
	END
	run -143 small_disk 4m sh "$PWD/within.sh" "$PWD"
	[ "$(grep -c 'no learner' err)" -eq 0 ] || complain "$(cat err)"
}
