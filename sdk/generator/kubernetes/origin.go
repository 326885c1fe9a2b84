package kubernetes

// Origin says which repository a source is, for files that name others by the address
// of their repository. Lehr gives the renderer of Kustomize those of its sources in
// git, as JSON.
type Origin struct {
	// Source is the name of the source, and of the folder of its files.
	Source string `json:"source"`
	// URL of the repository, or its path.
	URL string `json:"url"`
	// Directory of the repository that the source has; empty: all of it.
	Directory string `json:"directory,omitempty"`
	// Revision is the commit, tag or branch that the definition names; empty: what
	// HEAD says.
	Revision string `json:"revision,omitempty"`
}
