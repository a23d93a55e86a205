import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { aFile, type OptionValues, optionalText } from '@tollway/chassis/command-line/option.ts'
import { isLoopback } from '@tollway/chassis/net/is-loopback.ts'
import { mayRun, readStatusReport } from '../environments/host/status-file.ts'
import { accessFromEnvironment } from '../environments/kubernetes/api/access.ts'
import { parseServerUrl, readToken } from './read-input.ts'
import { createSource } from './run-program.ts'
import { stateDirOption } from './shared-options.ts'

const operatorOptions = {
  operator: optionalText({
    placeholder: 'URL',
    help:
      'the URL of an operator in a cluster, such as http://localhost:8000 after kubectl -n tollway ' +
      'port-forward deploy/tollway-operator 8000 (default: the operator on this machine)',
  }),
  'token-file': optionalText({
    placeholder: 'FILE',
    help: 'the file with a bearer token of the cluster (default: the token of the kubeconfig)',
    completion: aFile,
  }),
  'state-dir': stateDirOption,
}

export const operatorSource = createSource(operatorOptions, findOperator)

export interface OperatorAddress {
  readonly url: URL
  readonly token?: string
}

/**
 * Resolves with the operator of `--operator` or, without this option, with the one on this machine, which
 * requires no token.
 *
 * @throws UsageError for invalid options, Error if no operator runs; no message contains a token
 */
export async function findOperator(values: OptionValues<typeof operatorOptions>): Promise<OperatorAddress> {
  const { operator, 'token-file': tokenFile, 'state-dir': stateDir } = values
  if (operator === undefined) {
    if (tokenFile !== undefined) throw new UsageError('--token-file requires --operator')
    return { url: findLocalOperator(stateDir) }
  }
  const url = parseServerUrl('--operator', operator)
  const token = tokenFile === undefined ? await readKubeconfigToken() : readToken(tokenFile)
  if (token === undefined) return { url }
  if (url.protocol === 'http:' && !isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1'))) {
    const advice = 'use https, or kubectl port-forward and http://localhost'
    throw new UsageError(`--operator ${operator}: tokens are sent only with TLS; ${advice}`)
  }
  return { url, token }
}

function findLocalOperator(stateDir: string): URL {
  const report = readStatusReport(stateDir)
  const address = report && mayRun(report) ? report.addresses['operator'] : undefined
  if (address !== undefined) return new URL(address)
  const advice = 'start one with: tollway run -f FOLDER, or name one with --operator'
  throw new Error(`no operator runs with the state in ${stateDir}; ${advice}`)
}

/** Resolves with undefined if there is no kubeconfig, or its user authenticates without a token. */
async function readKubeconfigToken(): Promise<string | undefined> {
  try {
    const access = await accessFromEnvironment(process.env)
    const { headers } = await access.credentials()
    return /^Bearer (.+)$/.exec(headers['authorization'] ?? '')?.[1]
  } catch {
    return undefined
  }
}
