import type { Message } from '../wire/message.ts'

/** One rule of the specification, judging the messages of one request in their order. */
export interface Rule {
  /** What was found and what is allowed, for people; undefined when the message keeps the rule. */
  judge(message: Message, number: number): string | undefined
  /** The same of a request that ends here. */
  end?(): string | undefined
  /**
   * What the rule remembers of the messages behind the header, as JSON; undefined when it remembers nothing.
   */
  save?(): unknown
  /** Remembers what `save` has returned for the messages so far; called after `judge` of the header. */
  restore?(saved: unknown): void
}
