package source

import (
	"net/url"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Remote says where a source lies that is no folder of this machine. One of
// Document, Outputs, Git, HTTP, SQL, Versions and Packed is set.
type Remote struct {
	// Document is the name of one that the store holds.
	Document string `json:",omitempty"`
	// Outputs is the partition whose outputs it has, as far as that grants them.
	Outputs  intent.PartitionID `json:",omitempty"`
	Git      *Git
	HTTP     *HTTP
	SQL      *SQL
	Versions *Versions
	Packed   *Packed `json:",omitempty"`
	// Every is how long to wait between two looks; zero: the default.
	Every time.Duration
}

// EveryAtLeast is the shortest pause between two looks, and EveryByDefault the
// usual one.
const (
	EveryAtLeast   = time.Second
	EveryByDefault = 30 * time.Second
)

// Bare is what is asked for, without how often and by whom.
func (r Remote) Bare() Remote {
	r.Every = 0
	bare := func(git *Git) *Git {
		if git == nil {
			return nil
		}
		g := *git
		g.Login, g.Key, g.KnownHosts = Login{}, Secret{}, Secret{}
		return &g
	}
	r.Git = bare(r.Git)
	if r.HTTP != nil {
		h := *r.HTTP
		h.Login = Login{}
		r.HTTP = &h
	}
	if r.Versions != nil {
		v := *r.Versions
		v.Login, v.Tags, v.Commits = Login{}, bare(v.Tags), bare(v.Commits)
		v.Deployed = nil
		r.Versions = &v
	}
	if r.Packed != nil {
		p := *r.Packed
		p.Login = Login{}
		r.Packed = &p
	}
	return r
}

// Secret is where a secret is found, and never the secret: an environment
// variable of the server, or a file of its machine. One is set, or none.
type Secret struct{ Env, File string }

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s == Secret{} }

func (s Secret) String() string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}

// Git is a folder of a repository.
type Git struct {
	// URL over http, https or ssh, or the absolute path of a repository.
	URL string
	// At most one of Branch, Tag and Commit is set; none: what HEAD says.
	Branch, Tag, Commit string
	// Directory in the repository; empty: all of it.
	Directory string
	// Document is the path of the one file that is wanted, which is edited as a
	// document; empty: it is no document.
	Document string `json:",omitempty"`
	// Login over HTTP.
	Login
	// Key and KnownHosts are files, for SSH.
	Key, KnownHosts Secret
}

// Login is a user's name and password, or a token alone.
type Login struct {
	User  string
	Token Secret
}

// HTTP is one file that a server gives.
type HTTP struct {
	URL  string
	File string
	Login
}

// SQL is what a query finds: one file, or with Rows one for each row.
type SQL struct {
	// SQLite is the absolute path of a database; else DSN holds the URL of a
	// PostgreSQL database.
	SQLite string
	DSN    Secret
	Query  string
	File   string
	// Rows is the column that names each row's file.
	Rows string
	// Empty: no rows are an answer too.
	Empty bool
}

// HostOf a URL, without its port; empty: it has none, as the name of an operator's address or
// the path of a repository.
func HostOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}
