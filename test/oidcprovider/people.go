package main

import "errors"

// person who can log in, by name. All have one password.
type person struct {
	email    string
	verified bool
	groups   []string
}

const password = "secret of tests"

var people = map[string]person{
	"ann":     {"ann@example.com", true, []string{"sre", "platform"}},
	"bob":     {"bob@example.com", true, []string{"developers"}},
	"mallory": {"ann@example.com", false, []string{"platform"}}, // says that she is ann
}

// check returns the subject of who knows the password.
func check(user, given string) (string, error) {
	if _, known := people[user]; !known || given != password {
		return "", errors.New("user or password is wrong")
	}
	return user, nil
}
