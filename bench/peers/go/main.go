// The same routes in Go's net/http: bench DATA_FILE. Prints its URL.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const drawn = 5

type Session struct {
	Guilds []Guild `json:"guilds"`
}

type Data struct {
	Status   Status             `json:"status"`
	Team     []TeamMember       `json:"team"`
	Feedback []Feedback         `json:"feedback"`
	Sessions map[string]Session `json:"sessions"`
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var data Data
	if err := json.Unmarshal(text, &data); err != nil {
		log.Fatal(err)
	}
	rand.Seed(time.Now().UnixNano())

	routes := http.NewServeMux()
	routes.HandleFunc("/", data.status)
	routes.HandleFunc("/team", data.team)
	routes.HandleFunc("/feedback", data.feedback)
	routes.HandleFunc("/guilds", data.guilds)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, routes))
}

func (data *Data) status(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	status := data.Status
	if sent, err := strconv.ParseFloat(r.Header.Get("Sent-Epoch"), 64); err == nil {
		response := float64(arrived.UnixMicro())/1000 - sent*1000
		if response < 0 {
			response = 0
		}
		status.Health.API.Latency.Response = &response
	}
	status.Health.API.Latency.Process = float64(time.Since(arrived).Microseconds()) / 1000
	w.Header().Set("Access-Control-Allow-Origin", "*")
	answer(w, http.StatusOK, status)
}

func (data *Data) team(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=300")
	answer(w, http.StatusOK, data.Team)
}

func (data *Data) feedback(w http.ResponseWriter, _ *http.Request) {
	entries := make([]Feedback, 0, drawn)
	seen := make(map[int]bool, drawn)
	for len(entries) < drawn {
		index := rand.Intn(len(data.Feedback))
		if !seen[index] {
			seen[index] = true
			entries = append(entries, data.Feedback[index])
		}
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	answer(w, http.StatusOK, entries)
}

func (data *Data) guilds(w http.ResponseWriter, r *http.Request) {
	session, ok := data.Sessions[r.Header.Get("Token")]
	if !ok {
		answer(w, http.StatusUnauthorized, struct{}{})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusOK, session.Guilds)
}

func answer(w http.ResponseWriter, code int, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(Envelope{Code: code, Message: http.StatusText(code), Data: data}); err != nil {
		log.Print(err)
	}
}
