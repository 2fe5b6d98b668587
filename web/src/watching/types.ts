import type { Api } from '@/api/client'

/** What these pages read of the API's records. (The client turns the pairs of the document into plain lists.) */
type Found = Api<'KnownFinding'>
export type Finding = Omit<Found['finding'], 'range'> & { range: number[] }
export type KnownFinding = Omit<Found, 'finding'> & { finding: Finding }
export type SeriesRecord = Api<'SeriesRecord'>
export interface SeriesFull {
  series: SeriesRecord
  findings: KnownFinding[]
}
export type Point = Api<'Point'>
export type Alert = Omit<Api<'AlertRecord'>, 'past'>
