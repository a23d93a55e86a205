import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { aFile, type OptionValues, optionalText, texts } from '@tollway/chassis/command-line/option.ts'
import type { BrokerAddress } from '../broker-queries/broker-pages.ts'
import { mayRun, readStatusReport } from '../environments/host/status-file.ts'
import { parseServerUrl, readInput, readTokens } from './read-input.ts'
import { createSource } from './run-program.ts'
import { stateDirOption } from './shared-options.ts'

const addressOptions = {
  address: texts({
    placeholder: 'URL',
    help:
      'the debug server (port 6072) or the admin API (port 6075) of a broker; repeat it for several ' +
      'brokers (default: the debug servers of the operator on this machine)',
  }),
  'token-file': fileOption('the file with a token of the admin API'),
  ca: fileOption('for https: the certificate authorities of the broker (default: those of Node)'),
  cert: fileOption('the certificate of this client, if the broker requires one'),
  key: fileOption('the key of that certificate'),
  'state-dir': stateDirOption,
}

export const brokerSource = createSource(addressOptions, async values => findBrokers(values))

function fileOption(help: string) {
  return optionalText({ placeholder: 'FILE', help, completion: aFile })
}

const maxFileBytes = 1024 * 1024

/**
 * Returns the brokers of `--address`, or else the debug servers of the operator on this machine.
 *
 * @throws UsageError for an option that is invalid or has no effect
 */
function findBrokers(values: OptionValues<typeof addressOptions>): readonly BrokerAddress[] {
  const { address, cert, key } = values
  if (address.length === 0) {
    const unused = (['token-file', 'ca', 'cert', 'key'] as const).find(name => values[name] !== undefined)
    if (unused !== undefined) throw new UsageError(`--${unused} requires --address`)
    return debugServers(values['state-dir']).map(url => ({ url }))
  }
  if ((cert === undefined) !== (key === undefined))
    throw new UsageError('--cert and --key must be given together')
  const files = {
    ...(values['token-file'] !== undefined && { token: readTokens(values['token-file'])[0] }),
    ...(values.ca !== undefined && { ca: readInput('--ca', values.ca, maxFileBytes) }),
    ...(cert !== undefined && { cert: readInput('--cert', cert, maxFileBytes) }),
    ...(key !== undefined && { key: readInput('--key', key, maxFileBytes) }),
  }
  return address.map(text => ({ url: parseServerUrl('--address', text), ...files }))
}

function debugServers(stateDir: string): readonly URL[] {
  const report = readStatusReport(stateDir)
  if (report === undefined || !mayRun(report)) {
    const advice = 'start one with: tollway run -f FOLDER, or name a broker with --address'
    throw new Error(`no operator runs with the state in ${stateDir}; ${advice}`)
  }
  const brokers = report.replicas.filter(({ name }) => name.startsWith('broker-'))
  const found = brokers.flatMap(({ addresses }) => addresses['debug'] ?? [])
  if (found.length === 0) {
    throw new Error(
      'the operator on this machine runs no broker; start one with: tollway run --broker-replicas 1',
    )
  }
  return found.map(address => new URL(address))
}
