import type { Message } from '../wire/message.ts'

/** One rule of the specification. It checks the messages of one request in their order. */
export interface Rule {
  /** Returns the found and the allowed values, for people, or undefined if the message follows the rule. */
  judge(message: Message, number: number): string | undefined
  /** Checks a request that ends here; returns the same as `judge`. */
  end?(): string | undefined
  /** Returns the state after the header as JSON, or undefined if the rule has none. */
  save?(): unknown
  /** Restores the state that `save` returned; called after `judge` of the header. */
  restore?(saved: unknown): void
}
