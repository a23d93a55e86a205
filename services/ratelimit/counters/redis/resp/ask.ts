import type { Reply } from './reply-parser.ts'
import { RequestWriter, requestHead } from './request-writer.ts'
import { Session, type SessionOptions } from './session.ts'

/**
 * Sends one infrequent request. Never rejects: a missing reply resolves with an error that has the reason.
 *
 * @param words the command and its arguments
 */
export function ask(connection: Pick<Session, 'send'>, ...words: readonly string[]): Promise<Reply> {
  const [name = '', ...args] = words
  const requests = new RequestWriter()
  requests.begin(requestHead(name, args.length))
  for (const argument of args) requests.text(argument)
  return new Promise(resolve => {
    connection.send(requests, ([reply], problem = 'Redis left out a reply') => {
      resolve(reply === undefined ? { error: problem } : reply)
    })
  })
}

/** The same on a separate connection, which is closed after the reply. */
export function askOnce(options: SessionOptions, ...words: readonly string[]): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<Reply>()
  const session = new Session(options, {
    async onServing() {
      resolve(await ask(session, ...words))
      session.end('the reply has arrived')
    },
    onEnd: problem => resolve({ error: problem }),
    onSilence() {},
    onSign() {},
  })
  return promise
}
