// The button opens the extension's page as a tab, which stays open, as a popup does not. Copy node_modules/heed/dist to heed/ in this folder.

// The click gives the extension access to the tab that was open (activeTab). The page gets that tab's id, because in a tab of its own the
// active tab is the page itself, and the addresses of other tabs are hidden from an extension without the permission "tabs".
chrome.action.onClicked.addListener((tab) => chrome.tabs.create({ url: `search.html?tab=${tab.id}` }));
