package integration

var habitAccounts = map[string]bool{}
