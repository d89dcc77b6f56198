# The five lines at the top of README.md and design over real ssh: an sshd of our own on localhost, and four
# host names a, b, c, d that are four accounts' worth of home, key and working directory.

load helper

sshd=$(command -v sshd || echo /usr/sbin/sshd)

setup_file() {
	[ -x "$sshd" ] || skip "no sshd here"
	command -v ssh-keygen >/dev/null || skip "no ssh-keygen here"
	cd "$BATS_FILE_TMPDIR" || return
	corpus 60000 >corpus.txt
	dl-data --split 4 --holdout 0.1 --block 512 -o part corpus.txt
	start_sshd
}

teardown_file() {
	cd "$BATS_FILE_TMPDIR" || return
	if [ -s sshd.pid ]; then
		kill "$(cat sshd.pid)"
	fi
}

# sshd goes into the background before it knows whether the port is free.
listening() {
	for _ in $(seq 200); do
		[ -s sshd.pid ] && return
		grep -q 'Cannot bind' sshd.log && break
		sleep 0.05
	done
	rm -f sshd.log
	return 1
}

# One user, but each host's key has a forced command that makes another home and directory of it.
start_sshd() {
	local m dir=$BATS_FILE_TMPDIR port
	ssh-keygen -q -t ed25519 -N '' -f host
	: >authorized
	: >config
	for m in a b c d; do
		mkdir -p "$m"
		ssh-keygen -q -t ed25519 -N '' -f "id.$m"
		# shellcheck disable=SC2016 # for the shell at the other end
		printf 'command="cd %s/%s && HOME=$PWD XDG_CONFIG_HOME= PATH=%s:$PATH sh -c \\"$SSH_ORIGINAL_COMMAND\\"" %s\n' \
			"$dir" "$m" "$DL_BIN" "$(cat "id.$m.pub")" >>authorized
	done
	chmod 600 authorized
	for port in $(shuf -i 20000-29999 -n 50); do
		cat >sshd.conf <<-END
			ListenAddress 127.0.0.1:$port
			HostKey $dir/host
			PidFile $dir/sshd.pid
			AuthorizedKeysFile $dir/authorized
			StrictModes no
			PasswordAuthentication no
			UsePAM no
			MaxStartups 100
		END
		mkdir -p /run/sshd 2>/dev/null || true
		"$sshd" -f "$dir/sshd.conf" -E "$dir/sshd.log" 3>&-
		listening && break
	done
	for m in a b c d; do
		cat >>config <<-END
			Host $m
			HostName 127.0.0.1
			Port $port
			IdentityFile $dir/id.$m
			IdentitiesOnly yes
			StrictHostKeyChecking no
			UserKnownHostsFile /dev/null
			LogLevel ERROR
		END
	done
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	ssh() { command ssh -F "$BATS_FILE_TMPDIR/config" "$@"; }
}

# Each host gets to know us, we get to know each host, and each gets its shard.
introduce() {
	local m i=0
	for m in a b c d; do
		ssh $m dl-key show | dl-key trust -n $m -
		dl-key show | ssh $m dl-key trust -n home -
		ssh $m 'cat > shard.tok' <part.$i.tok
		i=$((i + 1))
	done
	cp part.valid.tok valid.tok
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' >small.conf
}

@test "keys travel through dl-key show and dl-key trust" {
	introduce
	run -0 dl-key list
	[ "$(grep -c ' trusted$' <<<"$output")" -eq 4 ]
}

@test "five lines of shell are a DiLoCo round over ssh" {
	introduce
	rm -f ./*.delta

	dl-init -c small.conf > g0.ckpt
	for m in a b c d; do
		ssh $m dl-learn -n 24 -d shard.tok -s state < g0.ckpt > $m.delta 3>&- &
	done; wait
	# shellcheck disable=SC2035 # as printed
	dl-merge -s outer.state g0.ckpt *.delta > g1.ckpt
	dl-eval -d valid.tok g1.ckpt

	run -0 dl-show g1.ckpt
	[[ $output =~ round\ +1 ]]
	run -0 --separate-stderr dl-merge --report -o again.ckpt g0.ckpt {a,b,c,d}.delta
	[ "$(grep -c 'accepted' <<<"$output")" -eq 4 ]
}

@test "a delta comes straight out of an ssh pipe" {
	introduce
	dl-init -c small.conf >p0.ckpt
	dl-merge -o p1.ckpt p0.ckpt <(ssh a dl-learn -n 2 -d shard.tok <p0.ckpt 3>&-) \
		<(ssh b dl-learn -n 2 -d shard.tok <p0.ckpt 3>&-)
	run -0 dl-show --verify p1.ckpt
}

@test "a learner whose key is not trusted is refused over ssh too" {
	introduce
	mkdir -p stranger
	dl-init -c small.conf >q0.ckpt
	ssh a dl-learn -n 2 -d shard.tok <q0.ckpt >q.delta
	HOME=$PWD/stranger XDG_CONFIG_HOME='' run -3 --separate-stderr dl-show --verify q.delta
	[[ $stderr =~ 'not trusted' ]]
}
