package serve

import "errors"

// errNoPermit ends a push whose permit was refused or ran out.
var errNoPermit = errors.New("no permit")
