# Several processes that mpirun starts are one learner: the batch is spread over them.

load helper

setup_file() {
	load helper
	cd "$BATS_FILE_TMPDIR" || return
	corpus 300000 >text
	dl-data -o text text
	dl-init -c tiny --seed 1 -o g0.ckpt
	cat >moe.conf <<-'END'
		d_model = 32
		layers = 2
		heads = 2
		ff = 32
		context = 32
		experts = 4
		experts_per_token = 2
		batch = 8
	END
	dl-init -c moe.conf -o moe.ckpt
}
setup() {
	command -v mpirun >/dev/null || skip "no mpirun"
	# Open MPI does not like root, few processors, or being stopped while it starts; a busy machine wants more than the
	# second that it gives them to save.
	export OMPI_MCA_odls_base_sigkill_timeout=5
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
	ldd "$DL_BIN/dl-learn" | grep -q libmpi || skip "built without MPI"
	cd "$BATS_TEST_TMPDIR" || return
	text=$BATS_FILE_TMPDIR/text.tok
	base=$BATS_FILE_TMPDIR/g0.ckpt
}
ranks() {
	local n=$1
	shift
	timeout -k 5 120 mpirun --oversubscribe -n "$n" dl-learn -j 1 -d "$text" "$@"
}
# rank N COMMAND-PID: the process that is rank N below an mpirun.
rank() {
	local pid
	for pid in $(pgrep -f -- "$(printf 'metrics %s/' "$PWD")"); do
		if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
			echo "$pid"
			return
		fi
	done
	return 1
}
until_rows() {
	local tries=0
	until [ "$(wc -l 2>/dev/null <"$1" || echo 0)" -gt "$2" ]; do
		sleep 0.1
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || complain "no $2 rows in $1"
	done
}

@test "ranks of one thread make the same bytes as one process with as many threads" {
	for n in 2 3; do
		ranks "$n" -n 5 -i x -o "ranks.$n" "$base"
		dl-learn -j "$n" -d "$text" -n 5 -i x -o "threads.$n" "$base"
		expect_same "ranks.$n" "threads.$n"
	done
}

@test "more ranks than samples, and a model of experts" {
	ranks 3 -B 2 -n 2 -i x -o ranks.2 "$base"
	dl-learn -j 2 -d "$text" -B 2 -n 2 -i x -o threads.2 "$base"
	expect_same ranks.2 threads.2
	ranks 2 -n 5 -i x -o ranks.moe --metrics ranks.tsv "$BATS_FILE_TMPDIR/moe.ckpt"
	dl-learn -j 2 -d "$text" -n 5 -i x -o threads.moe --metrics threads.tsv "$BATS_FILE_TMPDIR/moe.ckpt"
	expect_same ranks.moe threads.moe
	column=$(head -n 1 ranks.tsv | tr '\t' '\n' | grep -nx tokens_per_s | cut -d : -f 1)
	expect_same <(cut -f "$column" --complement ranks.tsv) <(cut -f "$column" --complement threads.tsv)
}

@test "the checkpoint comes through standard input, the state goes on" {
	ranks 2 -n 3 -i x -s state -o first.delta <"$base"
	ranks 2 -n 6 -i x -s state -o second.delta <"$base"
	dl-learn -j 2 -d "$text" -n 6 -i x -o want.delta "$base"
	expect_same second.delta want.delta
}

@test "what is wrong is said once, and all ranks end" {
	run --separate-stderr ranks 3 -n 3 -o x.delta no-such.ckpt
	[ "$status" -eq 1 ] || complain "expected status 1"
	[ "$(grep -c '^dl-learn: ' <<<"$stderr")" -eq 1 ] || complain "expected one line of dl-learn's"
	expect_stderr_like 'dl-learn: no-such\.ckpt: '
	expect_no_file x.delta
}

@test "a rank that dies ends the learner with a line and a saved state" {
	ranks 3 -n 100000 -i x -s state --metrics "$PWD/m.tsv" -o x.delta "$base" 2>words 3>&- &
	job=$!
	until_rows m.tsv 3
	kill -KILL "$(rank 1)"
	status=0
	wait "$job" || status=$?
	[ "$status" -ne 0 ] || complain "expected a failure" "$(cat words)"
	grep -E '^dl-learn: after step [0-9]+, which is saved: .*may have died' words ||
		complain "expected a line" "$(cat words)"
	expect_no_file x.delta
	run --separate-stderr dl-learn -v -j 1 -d "$text" -n 1 -i x -s state -o x.delta "$base"
	expect_status 0
	expect_stderr_like 'state: has [0-9]+ steps already'
}

@test "several ranks are one learner of a run directory" {
	dl-init -r run -c tiny --target-steps 12 -P 2 -H 4
	dl-sync -q -r run 3>&- &
	ranks 2 -r run -i a
	wait
	run --separate-stderr dl-sync -r run --replay
	expect_status 0
	dl-show --ledger run
}
