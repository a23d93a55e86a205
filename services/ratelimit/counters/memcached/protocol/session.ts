import type { OnReplies as OnRepliesOf } from '../../connections/reply-queue.ts'
import type { SessionEvents } from '../../connections/server-connection.ts'
import {
  type ServerProtocol,
  SocketSession,
  type SocketSessionOptions,
} from '../../connections/socket-session.ts'
import { isErrorReply, isValueReply, type Reply, ReplyParser } from './reply-parser.ts'

export type OnReplies = OnRepliesOf<Reply>

/** A request that every server and proxy supports, and that changes nothing. */
const greeting = 'get tollway_probe\r\n'

const memcached: ServerProtocol<Reply> = {
  server: 'memcached',
  receiveBytes: 16_384,
  timesGreeting: false,
  createParser: onReply => new ReplyParser(onReply),
  errorOf: reply => (isErrorReply(reply) ? reply.error : undefined),
  isOutOfStep,
  notServing: (_, timeoutMs) => `memcached did not answer for the first time within ${timeoutMs} ms`,
}

/** One connection to one memcached. It reads a key, since an open port does not prove that it serves. */
export class Session extends SocketSession<Reply> {
  constructor(options: SocketSessionOptions, events: SessionEvents) {
    super(memcached, options, events)
  }

  /** Sends `count` requests in one write. No request is sent again. */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.ending !== undefined || count === 0) onReplies([], this.ending)
    else this.write(requests, count, onReplies)
  }

  protected greet(): void {
    this.send(greeting, 1, ([reply], problem) => {
      if (problem !== undefined) return
      if (isErrorReply(reply)) this.end(reply.error)
      else if (!isValueReply(reply)) this.end('the server is not memcached')
      else this.serve()
    })
  }
}

/**
 * Returns whether the error means that memcached parsed the requests differently than they were written:
 * later replies cannot be assigned then. Other errors are about one key, or about the server's memory.
 */
function isOutOfStep(reply: Reply): boolean {
  return isErrorReply(reply) && /^(ERROR|CLIENT_ERROR (?!cannot increment))/.test(reply.error)
}
