import { UsageError } from '@tollway/chassis/command-line/command.ts'
import {
  aFile,
  type Option,
  type OptionValues,
  optionalText,
  toggle,
} from '@tollway/chassis/command-line/option.ts'
import { TlsFiles } from '@tollway/chassis/net/tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { Peer, PeerTls } from './peer.ts'

type Name = Peer['name']
type File = Option<string | undefined>

const file = (help: string): File => optionalText({ placeholder: 'FILE', help, completion: aFile })

export function peerTlsOptions<const Of extends Name>(name: Of) {
  return {
    [`${name}-tls`]: toggle({
      help: `connect to the ${name} with TLS; implied by the other options of its TLS`,
    }),
    [`${name}-ca`]: file(
      `the authorities of the ${name}'s certificate, in PEM (default: those of the system)`,
    ),
    [`${name}-cert`]: file(`the client certificate for the ${name}, in PEM`),
    [`${name}-key`]: file('the key of the client certificate, in PEM'),
    [`${name}-server-name`]: optionalText({
      placeholder: 'NAME',
      help: `the name that the ${name}'s certificate must have (default: its host)`,
    }),
  } as Record<`${Of}-tls`, Option<boolean>> & Record<`${Of}-${'ca' | 'cert' | 'key' | 'server-name'}`, File>
}

export const listenTlsOptions = {
  'listen-cert': file('with --listen: the certificate for callers, in PEM; with it, callers need TLS'),
  'listen-key': file('with --listen: the key of the certificate, in PEM'),
  'listen-client-ca': file('with --listen: the authorities of the client certificates that callers need'),
}

type Given = Readonly<Record<string, unknown>>

export function parsePeerTls(name: Name, values: Given): PeerTls | undefined {
  const given = (part: string) => String(values[`${name}-${part}`] ?? '')
  const tls = {
    caFile: given('ca'),
    certFile: given('cert'),
    keyFile: given('key'),
    serverName: given('server-name'),
  }
  return values[`${name}-tls`] === true || Object.values(tls).some(part => part !== '') ? tls : undefined
}

export type ListenTls = OptionValues<typeof listenTlsOptions>

/**
 * Returns undefined without TLS. Changed files apply to later handshakes.
 *
 * @param onProblem receives the reasons why changed files are not used, and why callers are rejected
 * @throws Error that names the options of missing or invalid files
 */
export function openListenTls(
  values: ListenTls,
  onProblem: (text: string) => void,
): (ServerTls & { close(): void }) | undefined {
  const { 'listen-cert': cert = '', 'listen-key': key = '', 'listen-client-ca': ca = '' } = values
  if (cert === '' && key === '' && ca === '') return undefined
  if (cert === '') throw new UsageError('missing option --listen-cert, which TLS requires')
  const files = new TlsFiles({
    cert: { setting: '--listen-cert', path: cert },
    key: { setting: '--listen-key', path: key },
    ca: { setting: '--listen-client-ca', path: ca },
    onReloadFailed: reason => onProblem(`changed certificate files are not used: ${reason}`),
  })
  return {
    credentials() {
      const { identity, ca: authorities } = files.credentials()
      return { cert: identity?.cert ?? '', key: identity?.key ?? '', ca: authorities }
    },
    requireClientCert: ca !== '',
    onChange: files.onChange,
    close: files.close,
    // The port differs for each connection. Without it, equal problems are printed once.
    onRejected: (error, peer) => onProblem(`caller ${peer.replace(/:\d+$/, '')}: ${error.message}`),
  }
}
