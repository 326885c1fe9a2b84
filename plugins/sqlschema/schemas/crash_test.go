package schemas

const crashVariable = "LEHR_TEST_CRASH"

func crash(string) int { return 0 }
