// search.js - Sphinx's search: a word's own paragraph comes first, then lessons; and "what is L" is a search for L.
var Scorer = {
  score: ([page, , anchor, , score]) =>
    score + (page === 'problems/glossary' ? (anchor ? 20 : -20) : /^problems/.test(page) ? 3 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,  // these are Sphinx's
};
document.addEventListener('DOMContentLoaded', () => {
  const perform = Search.performSearch;
  Search.performSearch = query =>
    perform(query.replace(/^(what|who|where|how|why|when) +((is|are|does|do|was|to) +)?((an?|the|my) +)?/i, ''));
}, true);  // before Sphinx's own, which begins the search
