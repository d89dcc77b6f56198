# What lies about in a run directory, and disks that are full, slow or read-only: the run goes on.

# shellcheck disable=SC2004,SC2034,SC2030,SC2031,SC2314 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
}
setup() {
	setup_run
}

# A socket of that name, where python or perl can make one.
socket() {
	perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or exit 1' "$1" 2>/dev/null || :
}
# strew DIRECTORY: what does not belong there, some of it under names that do.
strew() {
	local dir=$1
	mkdir -p "$dir"
	(
		cd "$dir" || exit
		mkfifo -- fifo f000.7.delta 77.frag beat.fifo
		socket socket
		mkdir -- directory f001.9.delta 78.frag $'new\nline'
		: >empty
		: >$'f000.1.delta\n'
		: >$'\033[2J'
		: >.f000.3.delta.tmp
		: >f000.1.delta~
		: >-rf
		: >f0000.1.delta
		: >f000.99999999999999999999999.delta
		: >"$(printf '%0250d' 0)"
		echo junk >f000.3.delta
		echo junk >79.frag
		head -c 5000 /dev/urandom >f001.8.delta
		ln -s /etc/passwd f000.4.delta
		ln -s / outside
		ln -s . f002.1.delta
		ln -s nowhere 80.frag
		ln -s /dev/zero 81.frag
	) || return
}

@test "pipes, sockets, directories, links and odd names anywhere: all ignored" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has ' publish '
	local dir
	for dir in . global global/f000 learner learner/a learner/fifo-keeper syncer syncer/outer ckpt; do
		strew "run/$dir"
	done
	mkdir run/learner/x run/learner/y run/learner/z
	mkfifo run/learner/x/beat run/learner/x/state run/learner/x/f000.2.delta
	ln -s /etc/passwd run/learner/y/beat
	ln -s /dev/zero run/learner/z/beat
	ln -s /dev/zero run/learner/z/state
	ln -s a run/learner/linked
	more_merges 4
	stopped sync a b
	expect_sound run
	[ "$(cat run/79.frag)" = junk ]
}

@test "what lies where the next version belongs is no version" {
	small_run run --target-steps 40
	echo junk >run/global/f000/1.frag
	ln -s /etc/passwd run/global/f001/1.frag
	mkfifo run/global/f002/1.frag
	mkdir -p run/syncer/outer/f000
	echo junk >run/syncer/outer/f000/1.outer
	learn a
	sync_run
	ended sync a
	expect_sound run
}

# mirror: what the syncer made comes to `mirror` whole; what learner c there made goes to `run` piece by piece,
# under its last name from the beginning.
mirror() {
	local from to size at
	while [ ! -e stop ]; do
		cp -ru run/global mirror/ 2>/dev/null || :
		for from in head manifest; do
			cp "run/$from" mirror/.new 2>/dev/null && mv mirror/.new "mirror/$from"
		done
		for from in mirror/learner/c/*; do
			to=run/${from#mirror/}
			mkdir -p run/learner/c
			case $from in
			*.delta)
				[ ! -e "$to" ] || continue
				size=$(stat -c %s "$from")
				for at in 1 2 3 4; do
					head -c $((size * at / 4)) "$from" | tail -c $((size * at / 4 - size * (at - 1) / 4)) >>"$to"
					sleep 0.03
				done
				;;
			*) cp "$from" run/learner/c/.new 2>/dev/null && mv run/learner/c/.new "$to" ;;
			esac
		done
		sleep 0.02
	done
}
@test "answers that grow slowly under their last name are taken when they are whole, and not before" {
	small_run run -K 2 --lease 30s
	cp -r run mirror
	sync_run
	learn a
	run=mirror learn c
	mirror 3>&- 2>/dev/null &
	pids[mirror]=$!
	until_true tape_has 5 ' merge .*[=,]c:'
	touch stop
	kill -TERM "${pids[sync]}" "${pids[a]}" "${pids[c]}"
	ended sync a c mirror
	! tape_has ' refuse .*learner=c .*verdict=(not-authentic|unreadable)' || complain "half a copy was judged"
	run --separate-stderr dl-sync -r run --replay
	expect_status 0
}

# stray N: as many files in the places that are looked through.
stray() {
	local dir
	for dir in run/learner/a run/global/f000 run/learner run; do
		(cd "$dir" && seq -f 'stray-%.0f.delta' "$(($1 / 4))" | xargs touch)
	done
}
@test "a hundred thousand stray files" {
	small_run run --target-steps 40
	mkdir -p run/learner/a
	stray 100000
	sync_run
	learn a
	learn b
	ended sync a b
	expect_sound run
}
# bats test_tags=slow
@test "a million stray files" {
	patience=1200
	small_run run --target-steps 40
	mkdir -p run/learner/a
	stray 1000000
	sync_run
	learn a
	learn b
	ended sync a b
	expect_sound run
}

@test "no space for a while, for everybody: the run goes on when there is some again" {
	need_plain_build
	small_run run
	export FAULT_HIT=$PWD/hits
	under="dl-break write,fsync,ftruncate,link,rename ENOSPC while:$PWD/full" sync_run
	under="dl-break write,fsync,ftruncate,link,rename ENOSPC while:$PWD/full" learn a
	under="dl-break write,fsync,ftruncate,link,rename ENOSPC while:$PWD/full" learn b
	until_true tape_has ' publish '
	touch full
	until_true eval '[ "$(wc -l <hits)" -gt 50 ]'
	for name in sync a b; do
		! dead "$name" || complain "$name gave up" "$(tail -n 3 "$name.log")"
	done
	rm full
	more_merges 4
	stopped sync a b
	expect_sound run
}

@test "a disk that is really full for a while" {
	need_plain_build
	need_small_disk
	small_run run --target-steps 60
	cat >within.sh <<-'END'
		cp -r "$1/run" . && shards=$2
		dl-learn -q -r run -i a -j 1 -d "$shards/part.0.tok" & a=$!
		dl-learn -q -r run -i b -j 1 -d "$shards/part.1.tok" & b=$!
		dl-sync -q -r run & sync=$!
		until [ -e run/global/f000/1.frag ]; do sleep 0.05; done
		cat /dev/zero >filler 2>/dev/null
		sleep 1
		rm filler
		wait "$sync" && wait "$a" && wait "$b" && dl-sync -r run --replay && dl-show --ledger run
	END
	run --separate-stderr small_disk 24m sh "$PWD/within.sh" "$PWD" "$BATS_FILE_TMPDIR"
	expect_status 0
}

@test "a full disk is told to those who look" {
	need_small_disk
	small_run run --target-steps 60
	cat >within.sh <<-'END'
		cp -r "$1/run" .
		dl-show --why run | grep -q 'has .* left' && exit 3
		dl-top --json run | grep -q '"room":[0-9.e+]*[1-9]' || exit 4
		cat /dev/zero >filler 2>/dev/null
		dl-show --why run && dl-top -1 run && dl-top --json run
	END
	run -0 --separate-stderr small_disk 24m sh "$PWD/within.sh" "$PWD"
	expect_stdout_like 'the file system of the run has 0 MiB left, too little for another version of a fragment'
	expect_stdout_like 'disk full: 0 MiB left, the run waits for room'
	expect_stdout_like '"room":0,'
}

@test "versions that can't be written: the syncer says so, waits, and goes on when they can" {
	need_plain_build
	small_run run
	export FAULT_HIT=$PWD/hits FAULT_UNDER=/global/
	under="dl-break link,rename,mkdir EROFS while:$PWD/readonly" sync_run
	learn a
	until_true tape_has ' publish '
	touch readonly
	until_true eval '[ "$(wc -l <hits)" -gt 2 ]'
	! dead sync || complain "the syncer gave up"
	until_true grep -q "Read-only file system" sync.log
	rm readonly
	more_merges 4
	stopped sync a
	expect_sound run
}

@test "global/ mounted read-only for a while" {
	need_plain_build
	need_small_disk
	small_run run --target-steps 60
	cat >within.sh <<-'END'
		cp -r "$1/run" . && shards=$2
		dl-learn -q -r run -i a -j 1 -d "$shards/part.0.tok" & a=$!
		mount --bind run/global run/global && mount -o remount,ro,bind run/global || exit 77
		dl-sync -v -r run 2>said & sync=$!
		until grep -q "Read-only file system" said; do sleep 0.05; kill -0 $sync || exit 5; done
		mount -o remount,rw,bind run/global
		wait "$sync" && wait "$a" && dl-sync -r run --replay && dl-show --ledger run
	END
	run --separate-stderr small_disk 64m sh "$PWD/within.sh" "$PWD" "$BATS_FILE_TMPDIR"
	[ "$status" -ne 77 ] || skip "no right to mount read-only"
	expect_status 0
}

@test "a file system without locks and links serves as well" {
	need_plain_build
	small_run run --target-steps 60
	touch poor
	under="dl-break flock,link EOPNOTSUPP while:$PWD/poor" learn a
	under="dl-break link EPERM while:$PWD/poor" learn b
	under="dl-break flock,link EOPNOTSUPP while:$PWD/poor" sync_run
	ended sync a b
	expect_sound run
}

@test "files that are gone or stale while a learner opens them: it tries again" {
	need_plain_build
	local n how
	export FAULT_UNDER=$PWD/run/
	for how in ESTALE ENOENT; do
		for n in 31 77; do
			rm -rf run
			small_run run --target-steps 30
			under="dl-break open,read $how $n" learn a
			sync_run
			ended sync a
			expect_sound run
		done
	done
}

@test "locks of the dead and of former lives are no locks" {
	small_run run
	sync_run
	learn a
	until_true tape_has ' publish '
	kill_hard sync
	kill_hard a
	# Whoever wrote these has long been someone else.
	find run -name '*lock*' -type f -exec sh -c 'echo 1 >"$1"' sh {} \;
	sync_run
	learn a
	more_merges 2
	stopped sync a
	expect_sound run
}

# slow_copy TO: of run, its files in any order, with pauses in which much happens.
slow_copy() {
	local file
	(cd run && find . -type d -exec mkdir -p "../$1/{}" \;)
	(cd run && find . -type f) | shuf >files
	sleep 0.5
	while read -r file; do
		cp -p "run/$file" "$1/$file" 2>/dev/null || : # learners go on, and remove what is old
		[ $((RANDOM % 8)) -ne 0 ] || sleep 0.05
	done <files
}

@test "a copy of a run at work is good when the syncer stands still meanwhile, whatever its order" {
	small_run run --keep 1
	sync_run
	learn a
	learn b
	local n
	for n in 1 2 3; do
		more_merges 6
		kill -STOP "$(cat run/syncer/lock.lock)"
		slow_copy "copy$n"
		kill -CONT "${pids[sync]}"
	done
	more_merges 2
	stopped sync a b
	expect_sound run
	for n in 1 2 3; do
		run=copy$n
		sync=sync-$n sync_run
		learn a
		learn b
		more_merges 6
		stopped "sync-$n" a b
		expect_sound "$run"
	done
}
