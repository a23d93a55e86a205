import { existsSync } from 'node:fs'
import type { Completion } from '@tollway/chassis/command-line/option.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { readStateDir } from '../environments/host/state-dir.ts'
import { callApi } from './call-api.ts'
import { findOperator } from './find-operator.ts'
import { readFolder } from './read-folder.ts'

/** The default time limit, which is short because the shell of the user waits. */
const defaultAnswerMs = 1_000
const maxNames = 200

/**
 * Resolves with the domains or rules that a command would find: those of `--file`, of `--operator`, or of the
 * operator on this machine; with an empty list if they cannot be read within `answerMs`. Never rejects.
 */
export async function suggestNames(
  { kind }: Completion,
  given: ReadonlyMap<string, string>,
  answerMs = defaultAnswerMs,
): Promise<readonly string[]> {
  if (kind !== 'domain' && kind !== 'rule') return []
  const none = new Promise<readonly string[]>(resolve => setTimeout(resolve, answerMs, []).unref())
  const names = kind === 'domain' ? listDomains(given) : listRules(given)
  const found = await Promise.race([names.catch(() => []), none])
  return [...new Set(found)].sort().slice(0, maxNames)
}

async function listDomains(given: ReadonlyMap<string, string>): Promise<readonly string[]> {
  if (given.has('operator')) return (await listItems('/domains', given)).map(({ domain }) => domain ?? '')
  const { resources } = await readGivenFolder(given)
  const ours = resources.filter(({ kind }) => kind === rateLimitConfigKind.kind)
  return ours.flatMap(({ spec }) => {
    const { domain } = (spec ?? {}) as { readonly domain?: unknown }
    return typeof domain === 'string' ? [domain] : []
  })
}

async function listRules(given: ReadonlyMap<string, string>): Promise<readonly string[]> {
  const domain = given.get('domain')
  if (domain === undefined) return []
  const rules = await listItems(`/domains/${encodeURIComponent(domain)}/rules`, given)
  return rules.map(({ rule }) => rule ?? '')
}

interface Item {
  readonly domain?: string
  readonly rule?: string
}

async function listItems(path: string, given: ReadonlyMap<string, string>): Promise<readonly Item[]> {
  const operator = await findOperator({
    operator: given.get('operator'),
    'token-file': given.get('token-file'),
    'state-dir': given.get('state-dir') ?? readStateDir(process.env),
  })
  return (await callApi<{ readonly items: readonly Item[] }>(operator, path)).items
}

function readGivenFolder(given: ReadonlyMap<string, string>) {
  const file = given.get('file')
  if (file !== undefined && !existsSync(file)) throw new Error('no such folder')
  return readFolder(file, given.get('state-dir') ?? readStateDir(process.env), { printError() {} })
}
