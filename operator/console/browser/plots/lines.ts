import type { ColorName } from './colors.ts'

export interface PlotLine {
  readonly label: string
  readonly color: ColorName
  /** Whether the line is dashed, so that lines differ not only by color. */
  readonly isDashed?: boolean
}

/** The lines for the hits of a domain or a rule, in the order of the values in a `SeriesBuffer`. */
export const hitLines: readonly PlotLine[] = [
  { label: 'allowed', color: 'allowed' },
  { label: 'rejected', color: 'rejected', isDashed: true },
  { label: 'near', color: 'near' },
  { label: 'shadow', color: 'shadow', isDashed: true },
]
