import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/tollway.ts'

export interface Figure {
  readonly what: string
  readonly goal: string
  readonly measured: string
}

const folder = join(root, 'out/e2e')

/** Collects the figures that one file of tests measures in the cluster. */
export function createFigures(name: string) {
  const figures: Figure[] = []
  return {
    note(what: string, goal: string, measured: string): void {
      figures.push({ what, goal, measured })
    },
    /** Writes them, for the table at the end of the run. */
    write(): void {
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, `${name}.json`), JSON.stringify(figures))
    },
  }
}

/** Removes the figures of earlier runs. */
export function clearFigures(): void {
  rmSync(folder, { recursive: true, force: true })
}

/** Returns the table of all figures, and writes them to out/e2e.json. */
export function tableOfFigures(): string {
  const files = existsSync(folder) ? readdirSync(folder).toSorted() : []
  const figures = files.flatMap(file => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Figure[])
  writeFileSync(join(root, 'out/e2e.json'), `${JSON.stringify(figures, undefined, 2)}\n`)
  const width = Math.max(0, ...figures.map(({ what }) => what.length))
  return figures
    .map(({ what, goal, measured }) => `${what.padEnd(width)}  ${goal.padEnd(28)}  ${measured}\n`)
    .join('')
}
