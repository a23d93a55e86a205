import type { Output } from '@tollway/chassis/command-line/command.ts'
import type { Options } from '@tollway/chassis/command-line/option.ts'

/** The source of a command's data: this machine, or a cluster. */
export interface SourceOf<Found> {
  /** The options that say where it is. */
  readonly options: Options
  /** Rejects with an error that says what was not found, or which right is missing. */
  open(values: SourceValues, output: Pick<Output, 'printError'>): Promise<Found>
}

/** The values of the options, by their names. */
export type SourceValues = Readonly<Record<string, unknown>>
