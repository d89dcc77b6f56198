# The example scripts, as somebody who reads them would run them.

load helper

@test "diloco-loop trains by rounds in a shell loop, and goes on where it stopped" {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'lr 0.02' >small.conf
	corpus 200000 >text.txt
	run -0 --separate-stderr "$repo/scripts/diloco-loop" -r 2 -n 20 -c small.conf text.txt out
	expect_no_stderr
	expect_stdout_like '^round 1  [0-9.]+ bits per byte
round 2  [0-9.]+ bits per byte$'
	first=$output
	awk '{ bits[NR] = $3 } END { exit !(bits[2] < bits[1] && bits[1] < 8) }' <<<"$output"
	run -0 "$repo/scripts/diloco-loop" -r 1 -n 20 -c small.conf text.txt out
	expect_stdout "${first%%$'\n'*}"
	run -2 --separate-stderr "$repo/scripts/diloco-loop" text.txt
	expect_stderr_like '^diloco-loop - '
	run -2 --separate-stderr "$repo/scripts/diloco-loop" -r 0 text.txt out
	expect_stderr_line "^diloco-loop: '0' is not a number of rounds or steps$"
}
