import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface SourceState {
  readonly version: string
  /** The commit, with `-dirty` appended when files differ from it; undefined outside of a Git checkout. */
  readonly revision?: string
  /**
   * The time in SOURCE_DATE_EPOCH; if that is not set, the time of the commit; without a commit, the Unix
   * epoch.
   */
  readonly created: Date
}

/** @throws Error if SOURCE_DATE_EPOCH is not a number of seconds */
export function readSourceState(root: string, env: NodeJS.ProcessEnv): SourceState {
  const { version } = JSON.parse(readFileSync(join(root, 'operator/package.json'), 'utf8'))
  const git = (...args: readonly string[]) =>
    spawnSync('git', ['-C', root, ...args], { encoding: 'utf8' }).stdout?.trim() ?? ''
  const commit = git('rev-parse', 'HEAD')
  const seconds = env['SOURCE_DATE_EPOCH'] || git('log', '-1', '--format=%ct') || '0'
  const max = 253_402_300_799 // the last second of the year 9999
  if (!/^\d+$/.test(seconds) || Number(seconds) > max) {
    throw new Error(`SOURCE_DATE_EPOCH is "${seconds}"; it must be a number of seconds from 0 to ${max}`)
  }
  const created = new Date(Number(seconds) * 1000)
  if (!/^[0-9a-f]{40,64}$/.test(commit)) return { version, created }
  const dirty = git('status', '--porcelain') !== ''
  return { version, created, revision: dirty ? `${commit}-dirty` : commit }
}

const shownDigits = 12

/** Returns the tags of an image: `dev`, the version, and the abbreviated commit. */
export function listTags({ version, revision }: SourceState): readonly string[] {
  if (revision === undefined) return ['dev', version]
  const [commit = '', ...dirty] = revision.split('-')
  return ['dev', version, [commit.slice(0, shownDigits), ...dirty].join('-')]
}
