/**
 * Called once, with the replies in the order of the requests. If the session ended before all replies
 * arrived, the missing ones are left out at the end, and `problem` is the reason.
 */
export type OnReplies<Reply> = (replies: readonly Reply[], problem: string | undefined) => void

/** The requests of one write whose replies are not complete. */
interface Debt<Reply> {
  readonly requests: number
  readonly replies: Reply[]
  readonly onReplies: OnReplies<Reply>
}

/** The queue of replies that a server owes, for a protocol that replies in the order of the requests. */
export class ReplyQueue<Reply> {
  readonly #debts: Debt<Reply>[] = []

  get isEmpty(): boolean {
    return this.#debts.length === 0
  }

  /**
   * Records one write with `requests` requests, at least one: an entry with none would take the next entry's
   * reply.
   *
   * @param replies the array that collects them
   */
  owe(requests: number, onReplies: OnReplies<Reply>, replies: Reply[] = []): void {
    this.#debts.push({ requests, replies, onReplies })
  }

  /** Adds the next reply; returns false when no request waits for one. */
  take(reply: Reply): boolean {
    const debt = this.#debts[0]
    if (debt === undefined) return false
    debt.replies.push(reply)
    if (debt.replies.length < debt.requests) return true
    this.#debts.shift()
    debt.onReplies(debt.replies, undefined)
    return true
  }

  /** Completes all entries with the problem, since no more replies will arrive. */
  failAll(problem: string): void {
    for (const { replies, onReplies } of this.#debts.splice(0)) onReplies(replies, problem)
  }
}
