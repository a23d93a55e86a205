import { type AddressInfo, createServer, type Socket } from 'node:net'
import { SMTPServer } from 'smtp-server'

/** How the server behaves for the next mails. */
export type SmtpFault =
  | 'none'
  /** The server answers this step with this status. */
  | 'greeting 421'
  | 'recipient 451'
  | 'recipient 550'
  | 'data 452'
  | 'data 554'
  /** The server accepts the data and never answers. */
  | 'hang'
  /** The server closes the connection while it receives the data. */
  | 'cut'

export interface SmtpServerUnderTest {
  readonly port: number
  /** The mails that the server has accepted, as they were received. */
  readonly taken: readonly string[]
  setFault(fault: SmtpFault): void
  close(): Promise<void>
}

/** Starts a real SMTP server on loopback, without TLS, that accepts mail from any sender. */
export async function startSmtpServer(): Promise<SmtpServerUnderTest> {
  const taken: string[] = []
  let fault: SmtpFault = 'none'
  const rejection = (step: string) => {
    const [where, status] = fault.split(' ')
    return where === step ? Object.assign(new Error('refused'), { responseCode: Number(status) }) : null
  }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    closeTimeout: 100,
    onConnect: (_, callback) => callback(rejection('greeting')),
    onRcptTo: (_, __, callback) => callback(rejection('recipient')),
    onData(stream, _, callback) {
      const chunks: Buffer[] = []
      stream.on('data', chunk => chunks.push(chunk))
      if (fault === 'cut') for (const { _socket: socket } of connectionsOf(server)) socket.destroy()
      stream.on('end', () => {
        if (fault === 'hang') return
        const rejected = rejection('data')
        if (rejected === null) taken.push(Buffer.concat(chunks).toString())
        callback(rejected)
      })
    },
  })
  // Ignores errors: the server emits one when a test closes a connection.
  server.on('error', () => {})
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    port: (server.server.address() as AddressInfo).port,
    taken,
    setFault(next) {
      fault = next
    },
    close: () => new Promise(resolve => server.close(() => resolve())),
  }
}

function connectionsOf(server: SMTPServer): Iterable<{ readonly _socket: Socket }> {
  return (server as unknown as { connections: Set<{ _socket: Socket }> }).connections
}

/** Starts a server that sends a line of the greeting every 5 milliseconds and never ends the greeting. */
export async function startTricklingServer(): Promise<{ readonly port: number; close(): void }> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    const timer = setInterval(() => socket.write('220-wait\r\n'), 5)
    socket.on('error', () => {}).on('close', () => clearInterval(timer))
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
