import { type AddressInfo, connect, createServer } from 'node:net'

/** A statement that a client sent to PostgreSQL, with the values of its parameters. */
export interface SentStatement {
  readonly sql: string
  readonly values: readonly SentValue[]
  /** Statements that were sent without waiting for each other's answers have the same number. */
  readonly roundTrip: number
}

/** A value as the client sent it: text, bytes, or null. */
export type SentValue = string | Buffer | null

export interface StatementTap {
  /** The port of the tap, which forwards to the server. */
  readonly port: number
  /** Returns all statements since the last call, in order. */
  take(): readonly SentStatement[]
  stop(): void
}

/** Records the statements of clients without TLS to the PostgreSQL server on the port. */
export async function tapStatements(targetPort: number): Promise<StatementTap> {
  let sent: SentStatement[] = []
  let roundTrips = 0
  const server = createServer({ noDelay: true }, client => {
    const upstream = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
    let answered = true
    const read = createFrontendReader((sql, values) => {
      if (answered) roundTrips += 1
      answered = false
      sent.push({ sql, values, roundTrip: roundTrips })
    })
    client.on('error', () => {}).on('close', () => upstream.destroy())
    upstream.on('error', () => {}).on('close', () => client.destroy())
    client.on('data', bytes => {
      read(bytes)
      upstream.write(bytes)
    })
    upstream.on('data', bytes => {
      answered = true
      client.write(bytes)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    take() {
      const taken = sent
      sent = []
      return taken
    },
    stop: () => server.close(),
  }
}

const typeAndLength = 5

/**
 * Parses frontend messages (PostgreSQL's documentation, section 55.7); only Parse, Bind and Query are used.
 */
function createFrontendReader(onStatement: (sql: string, values: readonly SentValue[]) => void) {
  const prepared = new Map<string, string>()
  let rest: Buffer = Buffer.alloc(0)
  // The first message has no type.
  let started = false

  function readMessage(type: string, body: Buffer): void {
    const texts = createCursor(body)
    if (type === 'Q') onStatement(texts.text(), [])
    if (type === 'P') prepared.set(texts.text(), texts.text())
    if (type !== 'B') return
    texts.text()
    const name = texts.text()
    onStatement(prepared.get(name) ?? '', readValues(texts))
  }

  return (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const head = started ? typeAndLength : typeAndLength - 1
      if (rest.length < head) return
      const end = rest.readInt32BE(head - 4) + (started ? 1 : 0)
      if (rest.length < end) return
      if (started) readMessage(rest.toString('latin1', 0, 1), rest.subarray(head, end))
      started = true
      rest = rest.subarray(end)
    }
  }
}

type Cursor = ReturnType<typeof createCursor>

function createCursor(body: Buffer) {
  let at = 0
  const take = (length: number) => {
    at += length
    return body.subarray(at - length, at)
  }
  return {
    take,
    int16: () => take(2).readInt16BE(),
    int32: () => take(4).readInt32BE(),
    /** Reads up to the zero byte. */
    text() {
      const value = take(body.indexOf(0, at) - at).toString()
      at += 1
      return value
    },
  }
}

function readValues({ int16, int32, take }: Cursor): readonly SentValue[] {
  const formats = Array.from({ length: int16() }, int16)
  const isBinary = (index: number) => (formats.length === 1 ? formats[0] : formats[index]) === 1
  return Array.from({ length: int16() }, (_, index) => {
    const length = int32()
    if (length < 0) return null
    const value = Buffer.from(take(length))
    return isBinary(index) ? value : value.toString()
  })
}
