package simulator_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// A core in memory, at the other end of a pipe. In a synctest bubble its habits
// take virtual time.
func ExampleServer_ServeConn() {
	book := simulator.NewMemoryBook()
	bank, err := simulator.Open(context.Background(), book, simulator.Rules{}, time.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	core := simulator.NewServer(bank, simulator.Options{LateAnswer: 5 * time.Second})

	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { core.ServeConn(context.Background(), far) })

	customer, err := account.Parse("12345678901234")
	if err != nil {
		fmt.Println(err)
		return
	}
	id := tranid.New(tranid.DateOf(time.Unix(0, 0)), 1)
	frame, err := telegram.PaymentRequest{TranID: id, Account: customer, Amount: 1000}.AppendTo(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := make([]byte, telegram.AnswerLength)
	if _, err := near.Write(frame); err != nil {
		fmt.Println(err)
	}
	if _, err := io.ReadFull(near, answer); err != nil {
		fmt.Println(err)
	}
	paid, err := telegram.ParsePaymentAnswer(answer)
	fmt.Println(paid.ResponseCode, paid.Message.Value, err)

	_ = near.Close()
	serving.Wait()
	page, err := bank.Journal(context.Background(), simulator.Filter{TranID: id, Limit: 10})
	for _, e := range page.Entries {
		fmt.Println(e.Sequence, e.MTI, e.Account, e.Amount, e.Effect, e.ResponseCode, err)
	}
	// Output:
	// 0000 정상처리 <nil>
	// 1 0100 123456****1234 1000 DEBIT 0000 <nil>
}
