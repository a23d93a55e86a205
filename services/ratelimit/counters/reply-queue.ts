/**
 * Called once, with the replies in the order of the requests. When the session ended before all of them had
 * come, those that are missing are missing at the end, and `problem` says why.
 */
export type OnReplies<Reply> = (replies: readonly Reply[], problem: string | undefined) => void

/** Requests of one write whose replies are not complete. */
interface Debt<Reply> {
  readonly requests: number
  readonly replies: Reply[]
  readonly onReplies: OnReplies<Reply>
}

/** The replies that a server owes, for a protocol that answers in the order in which it was asked. */
export class ReplyQueue<Reply> {
  readonly #debts: Debt<Reply>[] = []

  get isEmpty(): boolean {
    return this.#debts.length === 0
  }

  /**
   * So many requests were sent in one write, at least one: a debt of none would take the reply to the next.
   *
   * @param replies where they are gathered
   */
  owe(requests: number, onReplies: OnReplies<Reply>, replies: Reply[] = []): void {
    this.#debts.push({ requests, replies, onReplies })
  }

  /** Takes the next reply; false when nobody waits for one. */
  take(reply: Reply): boolean {
    const debt = this.#debts[0]
    if (debt === undefined) return false
    debt.replies.push(reply)
    if (debt.replies.length < debt.requests) return true
    this.#debts.shift()
    debt.onReplies(debt.replies, undefined)
    return true
  }

  /** Tells all that wait that no more will come. */
  giveUp(problem: string): void {
    for (const { replies, onReplies } of this.#debts.splice(0)) onReplies(replies, problem)
  }
}
