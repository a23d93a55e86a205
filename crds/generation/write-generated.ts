import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

export interface GeneratedFile {
  /** The path of the file, relative to the folder. */
  readonly name: string
  readonly text: string
}

interface GenerationOptions {
  readonly folder: string
  readonly check: boolean
  readonly program: string
}

/**
 * Writes the generated files whose content on disk differs, and prints their names. With `check`, writes
 * nothing, and sets the exit code to 1 if a file differs.
 */
export function writeGenerated(
  files: readonly GeneratedFile[],
  { folder, check, program }: GenerationOptions,
): void {
  for (const { name, text } of files) {
    const path = join(folder, name)
    const shown = relative(process.cwd(), path)
    if (existsSync(path) && readFileSync(path, 'utf8') === text) continue
    if (check) {
      console.error(`${shown} is not what ${program} makes; run: make generate`)
      process.exitCode = 1
    } else {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
      console.log(`wrote ${shown}`)
    }
  }
}
