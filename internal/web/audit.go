package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/auditexport"
	"lehr.dev/internal/ground/fault"
)

const (
	// auditKind is the page of who did what, and its link.
	auditKind = "audit"
	// auditFile is what the whole audit is downloaded as.
	auditFile = "audit.jsonl"
	// auditShown records are on one page.
	auditShown = 100
)

// auditView is a part of a chain of the audit.
type auditView struct {
	Partition, Actor, Subject, Verb, Since string
	Records                                []*apipb.AuditRecord
	Pages                                  pager
	// Cut: there are older records, which were not looked through for what is chosen.
	Cut                           bool
	Verify, Export, List, Command string
	// Chains are those of partitions, where none is chosen.
	Chains []auditChain
}

// auditChain is the audit of a partition: how many records it has, and its page.
type auditChain struct {
	Partition, Link string
	Count           int64
}

// auditVerification is what the verification of a chain found.
type auditVerification struct {
	Partition string
	*apipb.VerifyAuditResponse
	Command string
}

// showAudit shows who did what, from where and why, the newest first: in one partition, or what concerns all together.
func showAudit(ctx context.Context, r *reader, at address) (page, error) {
	view := auditView{
		Partition: at.query.Get("partition"), Actor: at.query.Get("actor"), Subject: at.query.Get("subject"), Verb: at.query.Get("verb"), Since: at.query.Get("since"),
		Verify: at.withValue("verify", "yes"), Export: auditFile,
	}
	if _, err := r.readServer(ctx); err != nil {
		return page{}, err
	}
	pageData := page{Title: "Audit", Fixed: true, Form: true, Back: crumb{"home", home}}
	if view.Partition != "" {
		pageData.Title = "Audit of " + view.Partition
		if _, err := r.readPartition(ctx, view.Partition); err == nil { // The audit outlives its partition.
			pageData.Partition, pageData.Back = view.Partition, crumb{"partition " + view.Partition, link(view.Partition, "partition", "")}
		}
	}
	view.List, view.Command = auditCommand(r, view), r.command("", "audit", "verify")
	request := &apipb.ListAuditRequest{Partition: view.Partition, Actor: view.Actor, Subject: view.Subject, Verb: view.Verb, NewestFirst: true, Limit: auditShown}
	if view.Since != "" {
		since, err := time.Parse(dayLayout, view.Since)
		if err != nil {
			return page{}, fault.New(fault.Invalid, "%.40q is no day", view.Since).WithHint("write a day such as %s", time.Now().UTC().Format(dayLayout))
		}
		request.Since = timestamppb.New(since)
	}
	before, err := strconv.ParseUint("0"+at.query.Get("before"), 10, 64)
	if err != nil {
		return page{}, fault.New(fault.Invalid, "%.40q is not the number of a record", at.query.Get("before"))
	}
	request.Before = before
	response, err := r.Audit.ListAudit(ctx, request)
	if fault.Is(err, fault.Denied) && view.Partition == "" {
		// Who may read some partitions reads the audit of each.
		pageData.Parts = []part{makePart("filter", "audit-filter", view), problem("problem", err)}
		return pageData, nil
	}
	if err != nil {
		return page{}, err
	}
	next := ""
	if response.Next != 0 {
		next = strconv.FormatUint(response.Next, 10)
	}
	view.Records, view.Pages, view.Cut = response.Records, at.pager("before", len(response.Records), next), next != "" && len(response.Records) < auditShown
	pageData.Parts = []part{makePart("filter", "audit-filter", view)}
	if at.query.Get("verify") != "" {
		verified, err := r.Audit.VerifyAudit(ctx, &apipb.VerifyAuditRequest{Partition: view.Partition})
		if err != nil {
			return page{}, err
		}
		pageData.Parts = append(pageData.Parts, makePart("verified", "audit-verified", auditVerification{view.Partition, verified, view.Command}))
	}
	if view.Partition == "" {
		if view.Chains, err = r.auditChains(ctx); err != nil {
			return page{}, err
		}
	}
	pageData.Parts = append(pageData.Parts, makePart("records", "audit-records", view))
	return pageData, nil
}

// auditChains are the chains of partitions.
func (r *reader) auditChains(ctx context.Context) (chains []auditChain, err error) {
	response, err := r.Audit.ListCheckpoints(ctx, &apipb.ListCheckpointsRequest{})
	for _, chain := range response.GetCheckpoints() {
		if chain.Partition != "" {
			chains = append(chains, auditChain{chain.Partition, auditOf(chain.Partition), int64(chain.Number)})
		}
	}
	return chains, err
}

// auditCommand returns the command that lists what the page shows.
func auditCommand(r *reader, view auditView) string {
	words := []string{"get", "audit"}
	if view.Partition == "" {
		words = append(words, "--global")
	}
	for _, choice := range [][2]string{{"--actor", view.Actor}, {"--asset", view.Subject}} {
		if choice[1] != "" {
			words = append(words, choice[0], choice[1])
		}
	}
	return r.command(view.Partition, words...)
}

// auditOf leads to the audit of a partition.
func auditOf(partition string) string {
	return address{kind: auditKind, query: url.Values{"partition": {partition}}}.String()
}

// exportAudit answers with all chains as a file. Records that come meanwhile are not in it.
func (s *Site) exportAudit(w http.ResponseWriter, r *http.Request) {
	heads, err := auditexport.Heads(r.Context(), s.options.Client)
	if err != nil {
		s.answer(w, r, address{kind: auditKind}, page{}, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="`+auditFile+`"`)
	if err := auditexport.Write(r.Context(), w, s.options.Client, heads); err != nil {
		panic(http.ErrAbortHandler) // The browser must not take half a file for the whole.
	}
}
