# dl-chaos as a whole: its sub-commands have files of their own, chaos-*.bats.

load helper

@test "without a sub-command it asks for one" {
	run --separate-stderr dl-chaos
	expect_status 2
	expect_stdout ""
	expect_stderr_line "^dl-chaos: what to do\? inject, sim or play; see -h$"
}

@test "an unknown sub-command is named" {
	run --separate-stderr dl-chaos "$(printf 'dan\nce')"
	expect_status 2
	expect_stdout ""
	expect_stderr_line "^dl-chaos: 'dan\\\\nce' is none of inject, sim and play$"
}

@test "options before the sub-command are refused" {
	run --separate-stderr dl-chaos -q sim
	expect_status 2
	expect_stderr_line "'sim' comes first"
}
