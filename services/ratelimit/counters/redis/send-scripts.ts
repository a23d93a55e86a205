import { createHash } from 'node:crypto'
import { type OnAnswers, resend, type Send } from '../batching/send.ts'
import { CountersError } from '../counters.ts'
import type { RespConnection } from './resp/connection.ts'
import { isErrorReply, type RedisReply } from './resp/reply-parser.ts'
import { RespWriter, requestHead } from './resp/request-writer.ts'
import { askingHead, withoutAsking } from './send-increments.ts'

export interface Script<Item, Answer> {
  readonly text: string
  argumentCount(item: Item): number
  keyCount(item: Item): number
  /** Writes the keys and then the other arguments. */
  write(requests: RespWriter, item: Item): void
  /** Reads the reply of a run, which is not an error reply. */
  read(reply: RedisReply, item: Item): Answer | CountersError
  /** Called for each run that failed, or whose reply is missing. */
  onFailure?(item: Item): void
}

/**
 * Sends each item as one run of the script, which is atomic on its Redis. All runs of a call are sent in one
 * write. A run that fails because Redis does not have the script is sent again with the script's text. In a
 * cluster, all keys of an item must be in one slot.
 *
 * @param onErrorReply called with the text of each error reply
 */
export function createScriptSender<Item, Answer>(
  connection: RespConnection,
  script: Script<Item, Answer>,
  onErrorReply: (text: string) => void,
): Send<Item, Answer> {
  const requests = new RespWriter()
  const sha = createHash('sha1').update(script.text).digest('hex')

  function writeRun(name: 'EVALSHA' | 'EVAL', item: Item, asking: boolean): void {
    if (asking) requests.begin(askingHead)
    requests.begin(requestHead(name, 2 + script.argumentCount(item)))
    requests.text(name === 'EVAL' ? script.text : sha)
    requests.integer(script.keyCount(item))
    script.write(requests, item)
  }

  function toAnswer(reply: RedisReply, item: Item): Answer | CountersError {
    if (!isErrorReply(reply)) return script.read(reply, item)
    onErrorReply(reply.error)
    return new CountersError(reply.error)
  }

  function send(
    name: 'EVALSHA' | 'EVAL',
    items: readonly Item[],
    onAnswers: OnAnswers<Answer>,
    asking = false,
  ): void {
    for (const item of items) writeRun(name, item, asking)
    connection.send(requests, (replies, problem) => {
      const outcomes = withoutAsking(replies, asking)
      for (const [index, item] of items.entries()) {
        const outcome = outcomes[index]
        if (outcome === undefined || isErrorReply(outcome)) script.onFailure?.(item)
      }
      const answers = outcomes.map((reply, index) => toAnswer(reply, items[index] as Item))
      const positions = name === 'EVAL' ? [] : findUnknownScripts(outcomes)
      if (positions.length === 0) onAnswers(answers, problem)
      else {
        const sendWhole: Send<Item, Answer> = (some, onSome) => send('EVAL', some, onSome, asking)
        resend(items, answers, [{ positions, send: sendWhole }], all => onAnswers(all, problem))
      }
    })
  }

  return (items, onAnswers, asking) => send('EVALSHA', items, onAnswers, asking)
}

/** Returns the indexes of the runs that did not begin because Redis does not have the script. */
function findUnknownScripts(replies: readonly RedisReply[]): number[] {
  const positions: number[] = []
  for (const [position, reply] of replies.entries()) {
    if (isErrorReply(reply) && reply.error.startsWith('NOSCRIPT')) positions.push(position)
  }
  return positions
}
