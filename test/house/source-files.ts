import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The folder of the repository. */
export const root = join(import.meta.dirname, '../..')

/** The paths of all files that git does not ignore, relative to the root. */
export const paths: readonly string[] = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard'],
  { cwd: root, encoding: 'utf8' },
)
  .split('\n')
  .filter(path => path !== '' && existsSync(join(root, path)))

/** The paths of TypeScript files that are not generated. */
export const codePaths = paths.filter(path => path.endsWith('.ts') && !path.startsWith('proto/gen/'))

export function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** Whether a file is a test, or only for tests. */
export function isTest(path: string): boolean {
  return /\.(test|contract)\.ts$|\/(testdata|testing)\//.test(path) || path.startsWith('test/')
}

/** Returns the lines of a page; those of code blocks are empty. */
export function proseLines(path: string): readonly string[] {
  return textOf(path)
    .replaceAll(/^```.*?^```/gms, block => block.replaceAll(/[^\n]/g, ''))
    .split('\n')
}
