import { GrpcError } from '../status.ts'

/** Receives the messages of a call. It asks for each one by `read`, and ignores messages after `close`. */
export interface RequestInbox {
  receive(bytes: Uint8Array): void
  halfClose(): void
  /** To be called when the call is over. `reason` is set if it was aborted. */
  close(reason?: GrpcError): void
}

interface InboxOptions<In> {
  /** Asks for a message: `receive` or `halfClose` is called later. */
  read(): void
  decode(bytes: Uint8Array): In
}

/**
 * Passes a request on when the caller has ended its side. No request, or more than one, is answered with
 * UNIMPLEMENTED, as gRPC specifies.
 */
export function createSingleInbox<In>(
  options: InboxOptions<In> & { onRequest(request: In): void; onRejected(error: GrpcError): void },
): RequestInbox {
  let request: { readonly message: In } | undefined
  let closed = false

  function reject(error: GrpcError): void {
    closed = true
    options.onRejected(error)
  }

  options.read()
  return {
    receive(bytes) {
      if (closed) return
      if (request)
        return reject(new GrpcError('UNIMPLEMENTED', 'the method takes one request, more were sent'))
      try {
        request = { message: options.decode(bytes) }
      } catch {
        return reject(undecodable())
      }
      options.read()
    },
    halfClose() {
      if (closed) return
      if (!request)
        return reject(new GrpcError('UNIMPLEMENTED', 'the method takes one request, none was sent'))
      closed = true
      options.onRequest(request.message)
    },
    close() {
      closed = true
    },
  }
}

/** Reads a message each time the handler asks for the next. */
export function createStreamInbox<In>(
  options: InboxOptions<In>,
): RequestInbox & { readonly messages: AsyncIterable<In> } {
  let waiting: PromiseWithResolvers<IteratorResult<In>> | undefined
  let ended = false
  let failure: GrpcError | undefined

  function settle(use: (waiter: PromiseWithResolvers<IteratorResult<In>>) => void): void {
    const waiter = waiting
    waiting = undefined
    if (waiter) use(waiter)
  }

  function end(): void {
    ended = true
    settle(waiter => waiter.resolve({ value: undefined, done: true }))
  }

  /** This function is not `async`, which would cost three turns of the microtask queue for each message. */
  function next(): Promise<IteratorResult<In>> {
    if (waiting) return Promise.reject(new Error('requests are read one at a time'))
    if (failure) return Promise.reject(failure)
    if (ended) return Promise.resolve({ value: undefined, done: true })
    waiting = Promise.withResolvers()
    const { promise } = waiting
    options.read()
    return promise
  }

  const iterator: AsyncIterator<In> = {
    next,
    async return() {
      end()
      return { value: undefined, done: true }
    },
  }
  return {
    messages: { [Symbol.asyncIterator]: () => iterator },
    receive(bytes) {
      settle(waiter => {
        try {
          waiter.resolve({ value: options.decode(bytes), done: false })
        } catch {
          failure = undecodable()
          waiter.reject(failure)
        }
      })
    },
    halfClose: end,
    close(reason) {
      if (!reason) return end()
      failure = reason
      settle(waiter => waiter.reject(reason))
    },
  }
}

function undecodable(): GrpcError {
  return new GrpcError('INTERNAL', 'the request could not be decoded')
}
