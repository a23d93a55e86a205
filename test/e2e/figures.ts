import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/tollway.ts'

export interface Figure {
  readonly what: string
  readonly goal: string
  readonly measured: string
}

/**
 * Collects the figures that were measured in the cluster. It prints them at the end and writes out/e2e.json.
 */
export function createFigures() {
  const figures: Figure[] = []
  return {
    note(what: string, goal: string, measured: string): void {
      figures.push({ what, goal, measured })
    },
    show(): void {
      mkdirSync(join(root, 'out'), { recursive: true })
      writeFileSync(join(root, 'out/e2e.json'), `${JSON.stringify(figures, undefined, 2)}\n`)
      const width = Math.max(...figures.map(({ what }) => what.length))
      for (const { what, goal, measured } of figures) {
        console.log(`  ${what.padEnd(width)}  ${goal.padEnd(28)}  ${measured}`)
      }
    },
  }
}
